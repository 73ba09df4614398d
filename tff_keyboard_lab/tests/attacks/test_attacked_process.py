"""Attacked client work in whole processes: server transfer, weight caps, packs."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.fine_tuning.test_server_transfer import client_dataset, run_config, tiny_model
from tests.algorithms.test_cohort_batcher import CLIENTS, cohort, config_of, process_of
from tests.support import fakes
from tff_keyboard.algorithms import cohort_batcher
from tff_keyboard.algorithms.client_packing.round_form import CannotPackError
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.algorithms.rounds.round_process import chain
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.training import build, process_transforms
from tff_keyboard_lab.attacks import attackers
from tff_keyboard_lab.attacks.attack_names import COLLUDING


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*simulation only")
def test_server_does_not_learn_from_a_client_that_sends_nan():
    def wrap(work):
        return attackers.build_attacked_client_work(work, "nan", share=0.5, seed=2)

    config = run_config("fine_tuning.server.text=generated")
    process = chain(
        build.build_process(config, tiny_model(0), wrap_client_work=wrap),
        process_transforms.round_transforms(config, tiny_model(0), None),
    )
    datasets = [client_dataset(seed) for seed in range(8)]
    output = process.next(process.initialize(), datasets)
    transfer = output.metrics["transfer"]
    assert 0 < transfer["clients_dropped"] < 8
    assert transfer["clients"] + transfer["clients_dropped"] == 8
    for weight in process.get_model_weights(output.state).trainable:
        assert np.isfinite(weight).all()
    for value in tf.nest.flatten(output.metrics["client_work"]):
        assert np.isfinite(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        ["aggregation.client_weighting=tokens"],
        pytest.param(["aggregation.client_weighting=uniform"], marks=pytest.mark.slow),
        pytest.param(["aggregation.rule.type=fedmed"], marks=pytest.mark.slow),
    ],
)
def test_a_lie_about_the_weight_is_capped_whatever_the_rule(store, overrides):
    config = fakes.tiny_config(store, "train.clients_per_round=2", *overrides)
    users = ClientStore(config.data.store)
    lie = functools.partial(
        attackers.build_attacked_client_work, attack="weight_lie", share=1.0, seed=0
    )
    process = build.build_process(
        config, build.build_initial_model(config, users.vocabulary), wrap_client_work=lie
    )
    datasets, _ = build.build_cohorts(config, users).round_input(1, CohortBatcher(None))
    output = process.next(process.initialize(), datasets)
    found = output.metrics["aggregator"]
    if config.aggregation.client_weighting == "uniform":
        assert found["impossible_claims"] == 2
    else:
        assert found["inner"]["capped_weights"] == 2


@pytest.mark.slow
def test_wrapped_work_goes_into_packs_too():
    def wrap(work):
        return attackers.build_attacked_client_work(work, "nan", share=1.0, seed=1)

    config = config_of()
    process = process_of(config, wrap_client_work=wrap, joined=True)
    prepared = cohort_batcher.prepare_process(process, clients_per_pack=3)
    output = prepared.process.next(
        prepared.process.initialize(), prepared.batcher(cohort(1), [1] * CLIENTS)
    )
    assert output.metrics["aggregator"]["refused_non_finite"] == CLIENTS


@pytest.mark.slow
def test_colluding_attacks_run_in_tffs_context(capsys):
    def wrap(work):
        return attackers.build_attacked_client_work(work, sorted(COLLUDING)[0], share=1.0, seed=1)

    process = process_of(config_of(), wrap_client_work=wrap, joined=True)
    with pytest.raises(CannotPackError, match="Pass `allow_tff_server=True`"):
        cohort_batcher.prepare_process(process, clients_per_pack=3)
    assert capsys.readouterr().out == ""
    prepared = cohort_batcher.prepare_process(process, clients_per_pack=3, allow_tff_server=True)
    assert prepared.process is process
    assert prepared.pop_aggregation_seconds() is None
    assert "starts a server process" in capsys.readouterr().out
    (dataset,) = prepared.batcher(cohort(1)[1:2], [3])
    assert dataset.element_spec == batches_lib.ELEMENT_SPEC
