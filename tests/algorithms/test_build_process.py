"""What a config asks for reaches the learning process."""

import functools

import pytest

from tests import fakes
from tff_keyboard.algorithms import build_process
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.learning import attacks
from tff_keyboard.learning.client_inputs import CohortInputs


@pytest.mark.parametrize(
    "overrides",
    [
        ["aggregation.client_weighting=tokens"],
        pytest.param(["aggregation.client_weighting=uniform"], marks=pytest.mark.slow),
        pytest.param(["aggregation.rule.name=fedmed"], marks=pytest.mark.slow),
    ],
)
def test_a_lie_about_the_weight_is_capped_whatever_the_rule(store, overrides):
    config = fakes.tiny_config(store, "train.clients_per_round=2", *overrides)
    users = ClientStore(config.data.store)
    lie = functools.partial(
        attacks.build_attacked_client_work, attack="weight_lie", share=1.0, seed=0
    )
    process = build_process.build_process(
        config, build_process.build_initial_model(config, users.vocabulary), wrap_client_work=lie
    )
    datasets, _ = CohortInputs(config, users).round_input(1)
    output = process.next(process.initialize(), datasets)
    assert output.metrics["aggregator"]["capped_weights"] == 2


def test_a_config_without_a_public_bound_is_warned_of(store):
    config = fakes.tiny_config(store, "client.max_examples=0")
    with pytest.warns(UserWarning, match="`client.max_examples` = 0"):
        build_process.build_weight_limit(config, 100)
