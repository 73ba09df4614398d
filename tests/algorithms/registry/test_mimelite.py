"""MimeLite against Algorithm 1 of Karimireddy et al. 2020 in float64, and its limits."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support.bigram_model import (
    BigramModel,
    assert_close,
    batches,
    gradient,
    initial_weights,
    process_parts,
    weights_after,
)
from tff_keyboard import config as config_lib
from tff_keyboard.aggregators.guards.update_guard import UpdateGuardFactory
from tff_keyboard.config import ConfigError
from tff_keyboard.parts.client_algorithm import CLIENT_ALGORITHMS

RATE, BETA = 0.2, 0.8
ROUNDS = [
    [batches(1, 2), batches(2, 3), batches(3, 1)],
    [batches(4, 3), batches(5, 2)],
    [batches(1, 2), batches(6, 2), batches(7, 3)],
]


def options(**changes):
    plain = {"learning_rate": RATE, "momentum": BETA, "gradient_clip_norm": 0.0}
    return CLIENT_ALGORITHMS["mimelite"](**{**plain, **changes})


def clipped(slopes, clip_norm):
    norm = np.sqrt(sum(np.sum(g**2) for g in slopes))
    return [min(1, clip_norm / norm) * g for g in slopes]


def numpy_mime_lite(*, uniform_weights=False, clip_norm=np.inf, paper=False):
    """The weights after each round.

    With `paper`, the momentum is an average, and the step size is divided by 1 - beta.
    """
    fresh, rate = (1 - BETA, RATE / (1 - BETA)) if paper else (1.0, RATE)
    server, weights_of_rounds = initial_weights(), []
    momentum = [np.zeros_like(w) for w in server]
    for clients in ROUNDS:
        models, slopes_of_clients, shares = [], [], []
        for client in clients:
            slope_sums, tokens = [np.zeros_like(w) for w in server], 0
            for batch in client:
                slopes, count = gradient(server, batch)
                slope_sums = [x + count * g for x, g in zip(slope_sums, slopes, strict=True)]
                tokens += count
            local = [w.copy() for w in server]
            for batch in client:
                slopes = clipped(gradient(local, batch)[0], clip_norm)
                local = [
                    w - rate * (fresh * g + BETA * m)
                    for w, g, m in zip(local, slopes, momentum, strict=True)
                ]
            models.append(local)
            slopes_of_clients.append([x / tokens for x in slope_sums])
            shares.append(1.0 if uniform_weights else tokens)
        shares = np.array(shares) / sum(shares)
        server = [np.tensordot(shares, np.stack(w), 1) for w in zip(*models, strict=True)]
        mean = [np.tensordot(shares, np.stack(g), 1) for g in zip(*slopes_of_clients, strict=True)]
        mean = clipped(mean, clip_norm)
        momentum = [BETA * m + fresh * g for m, g in zip(momentum, mean, strict=True)]
        weights_of_rounds.append(server)
    return weights_of_rounds


def test_rounds_are_the_paper():
    rounds = weights_after(options().build(process_parts()), ROUNDS)
    assert_close(rounds, numpy_mime_lite(), atol=1e-5)
    assert_close(rounds, numpy_mime_lite(paper=True), atol=1e-5)


def test_uniform_weights_and_clipped_gradients():
    process = options(gradient_clip_norm=0.2).build(process_parts(uniform_weights=True))
    expected = numpy_mime_lite(uniform_weights=True, clip_norm=0.2)
    assert_close(weights_after(process, ROUNDS), expected, atol=1e-5)


def test_momentum_zero_is_fedavg():
    fed_avg = CLIENT_ALGORITHMS["fedavg"](learning_rate=RATE, gradient_clip_norm=0.0)
    rounds = weights_after(options(momentum=0.0).build(process_parts()), ROUNDS)
    assert_close(
        rounds, weights_after(fed_avg.build(process_parts()), ROUNDS), rtol=1e-6, atol=1e-6
    )


def test_the_first_round_is_fedavg():
    fed_avg = CLIENT_ALGORITHMS["fedavg"](learning_rate=RATE, gradient_clip_norm=0.0)
    rounds = weights_after(options().build(process_parts()), ROUNDS[:1])
    expected = weights_after(fed_avg.build(process_parts()), ROUNDS[:1])
    assert_close(rounds, expected, rtol=1e-6, atol=1e-6)


class TrappedModel(BigramModel):
    """Its gradient is not finite on batches that begin with the last word."""

    @tf.function
    def forward_pass(self, batch_input, training=True):
        output = super().forward_pass(batch_input, training)
        trapped = tf.equal(batch_input["x"][0, 0], TRAP)
        return tff.learning.models.BatchOutput(
            loss=output.loss * tf.where(trapped, np.float32(np.nan), 1.0),
            predictions=None,
            num_examples=output.num_examples,
        )


TRAP = 6


def test_a_broken_client_does_not_spoil_the_momentum():
    guarded = UpdateGuardFactory(tff.aggregators.MeanFactory(no_nan_division=True))
    parts = process_parts(model_fn=TrappedModel, aggregator=guarded)
    broken = [[*clients, batches(9, 2, trap=TRAP)] for clients in ROUNDS]
    assert_close(weights_after(options().build(parts), broken), numpy_mime_lite(), atol=1e-5)


def test_a_round_without_clients_that_count_keeps_the_model():
    process = options().build(process_parts())
    first, second = weights_after(process, [ROUNDS[0], [[]]])
    assert_close([second], [first], rtol=0, atol=0)


@pytest.mark.parametrize(
    "overrides, words",
    [
        (["client={type='mimelite', momentum=1.0}"], r"`client.momentum` must be in \[0, 1\)"),
        (["client.type=mimelite", "aggregation.rule.type=fedmed"], "requires local training"),
        (
            ["client.type=mimelite", "aggregation.row_correction.type=fedsubavg"],
            "do not send which words they typed",
        ),
        (
            [
                "client.type=mimelite",
                "aggregation.client_weighting=uniform",
                "aggregation.privacy.type=gaussian",
            ],
            "does not clip and to which it adds no noise",
        ),
    ],
)
def test_rejects_options_in_one_line(overrides, words):
    with pytest.raises(ConfigError, match=words) as error:
        config_lib.loads("", overrides)
    assert "\n" not in str(error.value)
