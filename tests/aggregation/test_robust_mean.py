"""Median and trimmed mean of coordinates against NumPy."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.aggregation_fakes import VALUE_TYPE, WEIGHT_TYPE, assert_close, deltas, one_round
from tff_keyboard.aggregation.robust_mean import RobustMeanFactory
from tff_keyboard.config.rule_config import BoundedTrimmedMean, Median, TrimmedMean


@functools.cache
def process(name, trim_fraction=0.1):
    rule = Median() if name == "median" else TrimmedMean(trim_fraction=trim_fraction)
    return RobustMeanFactory(rule).create(VALUE_TYPE, WEIGHT_TYPE)


def by_coordinate(function, values):
    return [
        function(np.stack([np.asarray(v[i], np.float64) for v in values]))
        for i in range(len(values[0]))
    ]


@settings(max_examples=30, deadline=None)
@given(clients=st.integers(1, 9), mask=st.integers(0, 511), seed=st.integers(0, 2**31))
def test_median_equals_numpy(clients, mask, seed):
    values = deltas(seed, clients)
    weights = [float(mask >> k & 1) * (k + 1) for k in range(clients)]
    output = one_round(process("median"), values, weights)
    kept = [v for v, w in zip(values, weights, strict=True) if w]
    assert output.measurements["clients"] == len(kept)
    if kept:
        assert_close(output.result, by_coordinate(lambda x: np.median(x, axis=0), kept))
    else:
        assert all(not np.any(x) for x in output.result)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.3, 0.49])
@pytest.mark.parametrize("clients", [1, 3, 10])
def test_trimmed_mean_equals_scipy(fraction, clients):
    values = deltas(1, clients)
    output = one_round(process("trimmed_mean", fraction), values, [1.0] * clients)
    expected = by_coordinate(lambda x: stats.trim_mean(x, fraction + 1e-12, axis=0), values)
    assert_close(output.result, expected)


@pytest.mark.parametrize("rule, fraction", [("median", 0.0), ("trimmed_mean", 0.3)])
def test_a_minority_cannot_leave_the_others_range(rule, fraction):
    values = deltas(2, 7)
    for k, size in ((1, 1e30), (4, -1e30)):
        values[k] = [np.full_like(x, size) for x in values[k]]
    output = one_round(process(rule, fraction), values, [1.0] * 7)
    honest = [v for k, v in enumerate(values) if k not in (1, 4)]
    lows = by_coordinate(lambda x: x.min(axis=0), honest)
    highs = by_coordinate(lambda x: x.max(axis=0), honest)
    for got, low, high in zip(output.result, lows, highs, strict=True):
        assert np.all(got >= low - 1e-6)
        assert np.all(got <= high + 1e-6)


def test_no_clients_at_all():
    assert all(not np.any(x) for x in one_round(process("median"), [], []).result)


def numpy_bounded_trimmed_mean(values, attackers):
    flat = np.stack([np.concatenate([np.ravel(x).astype(np.float64) for x in v]) for v in values])
    norms = np.linalg.norm(flat, axis=1)
    radius = np.sort(norms)[(len(norms) - 1) // 2]
    bounded = flat * np.minimum(1, radius / np.maximum(norms, 1e-300))[:, None]
    wanted = int(np.ceil(attackers * len(values) - 1e-9))

    def trimmed(rows):
        cut = min(wanted, (len(rows) - 1) // 2)
        return np.sort(rows, axis=0)[cut : len(rows) - cut].mean(axis=0)

    return trimmed(bounded[bounded @ trimmed(bounded) > 0])


@functools.cache
def bounded_process(attackers):
    return RobustMeanFactory(BoundedTrimmedMean(attackers=attackers)).create(
        VALUE_TYPE, WEIGHT_TYPE
    )


@pytest.mark.parametrize("attackers", [0.1, 0.3, 0.49])
@pytest.mark.parametrize("clients", [1, 2, 5, 10])
def test_bounded_trimmed_mean_equals_numpy(attackers, clients):
    values = [[np.float32(k + 1) * x for x in v] for k, v in enumerate(deltas(1, clients))]
    output = one_round(bounded_process(attackers), values, [1.0] * clients)
    got = np.concatenate([np.ravel(x) for x in output.result])
    expected = numpy_bounded_trimmed_mean(values, attackers)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_boost_counts_for_no_more_than_an_honest_delta():
    values = deltas(3, 9)
    values[4] = [np.full_like(x, -1e30) for x in values[4]]
    output = one_round(bounded_process(0.1), values, [1.0] * 9)
    got = np.linalg.norm(np.concatenate([np.ravel(x) for x in output.result]))
    longest = max(
        np.linalg.norm(np.concatenate([np.ravel(x) for x in v]))
        for k, v in enumerate(values)
        if k != 4
    )
    assert got <= longest
    assert all(not np.any(x) for x in one_round(bounded_process(0.1), [], []).result)
