"""An adaptive bound stays between two quantiles of the honest norms, or gives way to attackers."""

import functools
import math

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support.aggregation_fakes import SHAPES, VALUE_TYPE, WEIGHT_TYPE, one_round
from tff_keyboard.aggregators.guards import norm_bounds

CLIENTS, QUANTILE = 20, 0.8
HONEST = np.arange(1.0, CLIENTS + 1)  # norms


@functools.cache
def process():
    bound = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
        initial_estimate=4.0, target_quantile=QUANTILE, learning_rate=0.2
    )
    mean = tff.aggregators.MeanFactory()
    return norm_bounds.clipping_factory(bound, mean).create(VALUE_TYPE, WEIGHT_TYPE)


def of_norm(norm):
    value = [np.zeros(shape, np.float32) for shape in SHAPES]
    value[0].flat[0] = norm
    return value


def bounds(attackers, norm, rounds=150):
    """The bounds of a training in which the first clients are attackers with updates of a norm."""
    honest = HONEST[np.linspace(0, CLIENTS - 1, CLIENTS - attackers).round().astype(int)]
    values = [of_norm(norm)] * attackers + [of_norm(x) for x in honest]
    state, history = None, []
    for _ in range(rounds):
        output = one_round(process(), values, [1.0] * CLIENTS, state)
        state = output.state
        history.append(float(output.measurements["clipping_norm"]))
    return honest, np.array(history)


@pytest.mark.parametrize("attackers, norm", [(0, 0.0), (2, 0.0), (2, 1e6), (3, 0.0), (3, 1e6)])
def test_a_minority_moves_the_bound_to_another_quantile(attackers, norm):
    share = attackers / CLIENTS
    honest, history = bounds(attackers, norm)
    settled = np.exp(np.log(history[-40:]).mean())
    ends = ((QUANTILE - share) / (1 - share), QUANTILE / (1 - share))
    low, high = (np.quantile(honest, end) for end in ends)
    expected = high if norm else low
    assert low - 1.5 <= settled <= high + 1.5
    assert settled == pytest.approx(expected, abs=1.5)  # norms are at distances of 1


@pytest.mark.parametrize(
    "attackers, norm, factor",
    [(6, 1e9, math.exp(0.2 * (QUANTILE - 0.7))), (18, 0.0, math.exp(0.2 * (QUANTILE - 0.9)))],
    ids=["more than 1 - q let it grow", "more than q let it shrink"],
)
def test_more_attackers_move_the_bound_without_limit(attackers, norm, factor):
    _, history = bounds(attackers, norm, rounds=200)
    np.testing.assert_allclose(history[-20:] / history[-21:-1], factor, rtol=1e-4)
    assert history[-1] > 2 * HONEST.max() if norm else history[-1] < HONEST.min() / 2
