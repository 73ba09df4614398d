"""Both evaluations of validation clients, against sums in this process over the same batches."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.evaluation.reference import sums_per_client
from tests.support.fakes import tiny_config
from tff_keyboard.algorithms.federated_evaluation import FederatedEvaluator
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.execution.engine import LocalEngine
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.training import build, client_inputs, validation


@pytest.fixture(name="setting", scope="module")
def _setting(store):
    config = tiny_config(store, "evaluation.max_examples=3", "evaluation.clients=4")
    client_store = ClientStore(store)
    model = build.build_initial_model(config, client_store.vocabulary)
    model.embedding.assign(3 * model.embedding)  # sharper than an untrained model
    clients = [
        batches.evaluation_batches(
            client_store.messages("validation", person),
            batch_size=2,
            max_length=config.data.max_length,
            max_examples=3,
        )
        for person in client_inputs.evaluation_clients(
            client_store, "validation", config.evaluation
        )
    ]
    return SimpleNamespace(
        config=config, store=client_store, model=model, expected=sums_per_client(model, clients)
    )


def check(found, expected):
    assert set(expected) <= set(found)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)


def test_in_this_process(setting):
    weights = tff.learning.models.ModelWeights.from_model(setting.model)
    predictor = KerasPredictor(
        build.build_initial_model(setting.config, setting.store.vocabulary),
        setting.store.vocabulary,
    )
    evaluate_on = validation.in_this_process(
        predictor, setting.config.evaluation, setting.config.data.max_length
    )
    evaluate = evaluate_on(setting.store)
    check(evaluate(weights), setting.expected)


@pytest.mark.slow
def test_federated(setting):
    weights = tff.learning.models.ModelWeights.from_model(setting.model)
    weights = tff.learning.models.ModelWeights(
        [v.numpy() for v in weights.trainable], [v.numpy() for v in weights.non_trainable]
    )
    evaluator = FederatedEvaluator(
        build.build_model_fn(setting.config, len(setting.store.vocabulary), evaluation=True)
    )
    evaluate_on = validation.federated(
        evaluator, setting.config.evaluation, setting.config.data.max_length
    )
    evaluate = evaluate_on(setting.store)
    check(evaluate(weights), setting.expected)


@pytest.mark.slow
def test_rows_do_not_depend_on_calls_and_threads(setting):
    """One client has nothing; rows keep their places over calls, packs and threads."""
    model_fn = build.build_model_fn(setting.config, len(setting.store.vocabulary), evaluation=True)
    weights = tff.learning.models.ModelWeights(
        [v.numpy() for v in setting.model.trainable_variables], []
    )
    clients = client_inputs.evaluation_clients_batches(
        setting.store, "validation", setting.config.evaluation, max_length=20
    )
    clients = [clients[0], [], *clients[1:], *clients]
    found = []
    for threads, most in ((1, 5), (3, 1000)):
        with LocalEngine(threads) as engine:
            evaluator = FederatedEvaluator(model_fn, engine=engine, clients_per_call=most)
            found.append(evaluator(weights, clients))
    for name, values in found[0].items():
        np.testing.assert_array_equal(found[1][name], values, err_msg=name)
        assert len(values) == len(clients)
        np.testing.assert_array_equal(values[5:], np.delete(values[:5], 1, axis=0))
    assert found[0]["tokens"][1] == 0
    assert np.all(np.delete(found[0]["tokens"], 1) > 0)


# Popov et al. 2018, Tables 1 and 2: general perplexity, users' perplexity, average perplexity.
POPOV = [
    (100.1, 336.0, 192.6),
    (121.3, 127.9, 124.8),
    (131.1, 109.7, 119.1),
    (149.0, 99.7, 119.9),
    (128.4, 162.8, 146.0),
    (147.0, 121.7, 132.7),
    (186.5, 101.1, 133.9),
    (265.1, 93.4, 150.8),
    (109.2, 259.7, 174.4),
    (112.3, 246.0, 171.6),
    (108.7, 261.2, 174.6),
    (102.8, 233.8, 160.3),
    (105.5, 109.3, 107.5),
]


@pytest.mark.slow
@pytest.mark.parametrize(("general", "user", "average"), POPOV)
def test_the_average_perplexity_of_popov_et_al(general, user, average):
    ours = validation.trade_off("perplexity", user, general, user_weight=200 / 370)
    assert round(ours, 1) == average


@pytest.mark.slow
def test_a_share_has_the_arithmetic_trade_off():
    assert validation.trade_off("kss", 0.4, 0.6, user_weight=0.25) == pytest.approx(0.55)
