"""Quantiles and roots against SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from tff_keyboard.evaluation.statistics import distributions

PROBABILITIES = (0.025, 0.3, 0.5, 0.55, 0.8, 0.95, 0.975, 0.995, 1 - 1e-6)


@pytest.mark.parametrize("freedom", [0.3, 1, 1.0040160642570282, 2.5, 7, 50, 1768.3, 1e6])
def test_quantiles_of_student(freedom):
    actual = [distributions.t_quantile(probability, freedom) for probability in PROBABILITIES]
    np.testing.assert_allclose(actual, stats.t.ppf(PROBABILITIES, freedom), rtol=5e-9, atol=1e-12)


def test_t_with_many_degrees_of_freedom_is_normal():
    actual = distributions.t_quantile(0.975, 1e9)
    assert actual == pytest.approx(stats.norm.ppf(0.975), rel=1e-6)


@pytest.mark.parametrize("probability, freedom", [(0.0, 3), (1.0, 3), (0.5, 0), (math.nan, 3)])
def test_rejects(probability, freedom):
    with pytest.raises(ValueError, match="must be"):
        distributions.t_quantile(probability, freedom)


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: x**9 - 0.5, 0.5 ** (1 / 9)),  # the false position alone converges slowly
        (lambda x: math.tanh(1e4 * (x - 0.7)), 0.7),
        (lambda x: x, 0.0),
        (lambda x: x - 1, 1.0),
    ],
)
def test_roots(function, expected):
    calls = []
    actual = distributions.root(lambda x: calls.append(x) or function(x), 0.0, 1.0)
    assert actual == pytest.approx(expected, abs=1e-13)
    assert len(calls) < 80
