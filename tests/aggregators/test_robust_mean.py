"""Median and trimmed mean of coordinates against NumPy."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.aggregation_fakes import VALUE_TYPE, WEIGHT_TYPE, assert_close, deltas, one_round
from tests.support.examples import examples
from tff_keyboard.aggregators.robust_mean import MedianFactory, TrimmedMeanFactory


@functools.cache
def process(name, trim_fraction=0.1):
    factory = (
        MedianFactory() if name == "median" else TrimmedMeanFactory(trim_fraction=trim_fraction)
    )
    return factory.create(VALUE_TYPE, WEIGHT_TYPE)


def by_coordinate(function, values):
    return [
        function(np.stack([np.asarray(v[i], np.float64) for v in values]))
        for i in range(len(values[0]))
    ]


@examples(30)
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
