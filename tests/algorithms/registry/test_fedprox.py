"""FedProx against eq. 2 of Li et al. 2020 in float64, and its limits."""

from typing import Any

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support import own_parts_page
from tests.support.bigram_model import (
    SGD,
    BigramModel,
    assert_close,
    batches,
    gradient,
    initial_weights,
    process_parts,
    weights_after,
)
from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.client_training import build_client_training
from tff_keyboard.algorithms.composition import compose_process
from tff_keyboard.config import ConfigError
from tff_keyboard.parts.client_algorithm import CLIENT_ALGORITHMS

RATE = 0.4
# Clients of 2, 3 and 1 batches; then two others
ROUNDS = [[batches(1, 2), batches(2, 3), batches(3, 1)], [batches(4, 3), batches(5, 2)]]


def options(**changes):
    plain = {"learning_rate": RATE, "gradient_clip_norm": 0.0}
    return CLIENT_ALGORITHMS["fedprox"](**{**plain, **changes})


def numpy_fed_prox(strength, *, uniform_weights=False, clip_norm=np.inf):
    """The weights after each round: SGD on F_k(w) + mu / 2 ||w - w^t||^2, then the mean."""
    server, weights_of_rounds = initial_weights(), []
    for clients in ROUNDS:
        sums, total = [np.zeros_like(w) for w in server], 0.0
        for client in clients:
            local, tokens = [w.copy() for w in server], 0
            for batch in client:
                slopes, count = gradient(local, batch)
                slopes = [
                    g + strength * (w - s) for g, w, s in zip(slopes, local, server, strict=True)
                ]
                norm = np.sqrt(sum(np.sum(g**2) for g in slopes))
                local = [
                    w - RATE * min(1, clip_norm / norm) * g
                    for w, g in zip(local, slopes, strict=True)
                ]
                tokens += count
            weight = 1.0 if uniform_weights else tokens
            sums = [s + weight * w for s, w in zip(sums, local, strict=True)]
            total += weight
        server = [s / total for s in sums]
        weights_of_rounds.append(server)
    return weights_of_rounds


@pytest.mark.parametrize("strength", [0.1, 1.5])
def test_rounds_are_the_paper(strength):
    process = options(proximal_strength=strength).build(process_parts())
    rounds = weights_after(process, ROUNDS)
    assert_close(rounds, numpy_fed_prox(strength))
    assert np.abs(rounds[0][0] - numpy_fed_prox(0.0)[0][0]).max() > 1e-3  # the term matters


def test_uniform_weights_and_the_bound_on_the_whole_gradient():
    client = options(proximal_strength=1.5, gradient_clip_norm=0.3)
    process = client.build(process_parts(uniform_weights=True))
    expected = numpy_fed_prox(1.5, uniform_weights=True, clip_norm=0.3)
    assert_close(weights_after(process, ROUNDS), expected)


def test_strength_zero_is_fedavg_to_the_bit():
    fed_avg = CLIENT_ALGORITHMS["fedavg"](learning_rate=RATE, gradient_clip_norm=0.0)
    result = weights_after(options(proximal_strength=0.0).build(process_parts()), ROUNDS)
    assert_close(result, weights_after(fed_avg.build(process_parts()), ROUNDS), rtol=0, atol=0)


def test_a_client_with_one_batch_is_fedavg_to_the_bit():
    fed_avg = CLIENT_ALGORITHMS["fedavg"](learning_rate=RATE, gradient_clip_norm=0.0)
    rounds = [[batches(1, 1), batches(2, 1)]]
    result = weights_after(options(proximal_strength=1.5).build(process_parts()), rounds)
    assert_close(result, weights_after(fed_avg.build(process_parts()), rounds), rtol=0, atol=0)


def test_the_example_of_the_page_is_the_same_algorithm():
    page: dict[str, Any] = {}
    exec(own_parts_page.code(), page)
    process = compose_process(
        BigramModel,
        client_work=page["fed_prox"](BigramModel, RATE, 1.5),
        server_optimizer=SGD(1.0),
        aggregator=tff.aggregators.MeanFactory(),
    )
    expected = weights_after(options(proximal_strength=1.5).build(process_parts()), ROUNDS)
    assert_close(weights_after(process, ROUNDS), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_rejects_a_strength_that_is_not_one(strength):
    with pytest.raises(ValueError, match="`proximal_strength` must be finite and >= 0"):
        build_client_training(BigramModel, SGD(RATE), proximal_strength=strength)


@pytest.mark.parametrize(
    "overrides, words",
    [
        (["client={type='fedprox', proximal_strength=-1.0}"], "`client.proximal_strength` must be"),
        (["client={type='fedprox', proximal_strength=nan}"], "must be finite"),
        (
            ["client={type='fedprox', proximal_strength=4.0, learning_rate=0.5}"],
            r"must be < 2 / `client.learning_rate` = 4, got 4.0",
        ),
        (["client.proximal_strength=0.1"], "it belongs to 'fedprox'"),
        (["client.type=fedprox", "aggregation.rule.type=fedmed"], "requires local training losses"),
    ],
)
def test_rejects_options_in_one_line(overrides, words):
    with pytest.raises(ConfigError, match=words) as error:
        config_lib.loads("", overrides)
    assert "\n" not in str(error.value)


def test_a_private_fedprox_is_allowed():
    overrides = ["client.type=fedprox", "aggregation.client_weighting=uniform"]
    config = config_lib.loads("", [*overrides, "aggregation.privacy.type=gaussian"])
    assert config.aggregation.is_private
