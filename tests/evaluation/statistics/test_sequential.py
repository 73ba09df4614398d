"""Bounds and drifts against the literature, textbooks and simulation."""

import numpy as np
import pytest
from scipy import stats

from tff_keyboard.evaluation.statistics import sequential


def test_one_look_is_the_textbooks_test():
    assert sequential.bounds(1) == pytest.approx([1.959964], abs=1e-4)
    expected = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert sequential.drift_for(0.8, 1) == pytest.approx(expected, abs=1e-3)


def test_five_looks_have_the_bounds_of_lan_and_demets():
    expected = [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]
    assert sequential.bounds(5) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("looks, alpha, power", [(3, 0.05, 0.8), (5, 0.01, 0.9)])
def test_error_and_power_by_simulation(looks, alpha, power):
    rng = np.random.default_rng(1)
    limits = np.array(sequential.bounds(looks, alpha))
    drift = sequential.drift_for(power, looks, alpha)
    steps = rng.normal(size=(200_000, looks))
    roots = np.sqrt(np.arange(1, looks + 1))
    null = np.cumsum(steps, axis=1) / roots
    moved = np.cumsum(steps + drift / np.sqrt(looks), axis=1) / roots
    error = np.mean((np.abs(null) >= limits).any(axis=1))
    first = np.argmax(np.abs(moved) >= limits, axis=1)
    crossed = (np.abs(moved) >= limits).any(axis=1) & (moved[np.arange(len(first)), first] > 0)
    assert error == pytest.approx(alpha, abs=4 * np.sqrt(alpha / 200_000))
    assert np.mean(crossed) == pytest.approx(power, abs=0.004)


def test_looks_cost_a_little():
    plain, looked = (sequential.drift_for(0.8, looks) for looks in (1, 5))
    assert 1.0 < (looked / plain) ** 2 < 1.05


@pytest.mark.parametrize("looks, alpha", [(0, 0.05), (21, 0.05), (2, 0.0), (2, 1.0)])
def test_rejects(looks, alpha):
    with pytest.raises(ValueError, match="must be"):
        sequential.bounds(looks, alpha)


def test_rejects_a_power_that_is_no_power():
    with pytest.raises(ValueError, match="power"):
        sequential.drift_for(0.04, 1)
