"""A secret that the tail denies is found; bounds hold as often as stated; no false alarms."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from tests.support.examples import examples
from tff_keyboard_lab.audits import direct_bounds, tail_statistics

NUM_TEXTS = 10_000
SPREAD = 0.05  # of ln c of ordinary texts
DELTA = 1e-5
# A phrase of probability 1e-3 with the person and 1e-6 without has delta(eps) =
# 1e-3 (1 - e^eps / 1000), beside what ordinary texts add: nothing from eps 0.5 on.
TRUE_EPSILON = math.log(1000 * (1 - DELTA / 1e-3))


def secret(seed):
    """Returns ln c of texts without the client, which lack the secret, and of texts with."""
    rng = np.random.default_rng(seed)
    without = rng.normal(-(SPREAD**2) / 2, SPREAD, size=NUM_TEXTS)
    opposite = -rng.normal(SPREAD**2 / 2, SPREAD, size=NUM_TEXTS)
    opposite[rng.random(NUM_TEXTS) < 1e-3] = -math.log(1000)
    return without, opposite


def test_a_planted_secret_is_found_and_refutes_the_tail():
    for seed in range(5):
        sample, opposite = secret(seed)
        actual = direct_bounds.direct_epsilon_lower_bound(opposite, DELTA)
        assert 6.0 < actual <= TRUE_EPSILON
        fit = tail_statistics.fit_tail(sample, seed=seed, trials=200).fit
        if fit is None:
            continue
        tail = tail_statistics.estimated_epsilon(sample, fit.conservative(), DELTA)
        assert tail < 0.5  # what was printed before: a small epsilon beside its own refutation
        refuted = direct_bounds.refutation(sample, fit, opposite)
        assert refuted is not None
        assert refuted.delta_direct_low > refuted.delta_tail
        assert refuted.delta_direct_low < 1e-3


def test_ordinary_texts_refute_rarely():
    """For true log-normal ratios the cautious tail errs to the safe side, so refutations are
    errors.
    """
    alarms = tried = 0
    for seed in range(25):
        rng = np.random.default_rng(100 + seed)
        sample = rng.normal(-0.045, 0.3, size=NUM_TEXTS)
        opposite = -rng.normal(0.045, 0.3, size=NUM_TEXTS)
        fit = tail_statistics.fit_tail(sample, seed=seed, trials=100).fit
        if fit is not None:
            tried += 1
            alarms += direct_bounds.refutation(sample, fit, opposite) is not None
    assert tried > 12
    assert alarms <= 2


@pytest.mark.slow
def test_epsilon_is_a_lower_bound_as_often_as_it_says():
    """ln p'/p of texts of p is -N(s^2/2, s^2): delta(eps) is that of a Gaussian of mu = s."""
    spread, delta, trials = 1.0, 1e-2, 150

    def true_delta(epsilon):
        return stats.norm.cdf(spread / 2 - epsilon / spread) - math.exp(epsilon) * stats.norm.cdf(
            -spread / 2 - epsilon / spread
        )

    truth = max(e for e in np.linspace(0, 5, 5001) if true_delta(e) > delta)
    rng = np.random.default_rng(0)
    actual = [
        direct_bounds.direct_epsilon_lower_bound(
            -rng.normal(spread**2 / 2, spread, size=2000), delta
        )
        for _ in range(trials)
    ]
    assert np.mean(np.array(actual) > truth) < 0.06
    assert np.median(actual) > 0.6 * truth  # and not empty caution


@examples(100)
@given(hits=st.integers(0, 50), count=st.integers(50, 5000))
def test_mean_bound_is_below_clopper_pearson(hits, count):
    """Coins are the hardest values in [0, 1]: their exact bound limits every other bound."""
    low = direct_bounds.mean_lower_bound(hits / count, count)
    exact = stats.beta.ppf(0.05, hits, count - hits + 1) if hits else 0.0
    assert low <= exact + 1e-12
    assert low >= 0.3 * exact


@example(mean=0.02183395456512069, count=1)
@given(mean=st.floats(0, 1), count=st.integers(1, 10**6))
def test_the_bound_is_hoeffdings(mean, count):
    low = direct_bounds.mean_lower_bound(mean, count)
    assert 0 <= low <= mean
    if low > 1e-300 and mean < 1:
        assert count * direct_bounds._divergence(mean, low) == pytest.approx(math.log(20), rel=1e-3)


def test_equal_models_prove_nothing():
    zeros = np.zeros(1000)
    assert direct_bounds.direct_epsilon_lower_bound(zeros, 1e-5) == 0.0
    assert direct_bounds.direct_delta_lower_bound(zeros, 0.0) == 0.0


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"mean": 1.5, "count": 3}, r"`mean` must be in \[0, 1\]"),
        ({"mean": 0.5, "count": 0}, "`count` must be >= 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        direct_bounds.mean_lower_bound(**arguments)
    with pytest.raises(ValueError, match="`delta` must be in"):
        direct_bounds.direct_epsilon_lower_bound(np.zeros(3), 0.0)


@pytest.mark.parametrize("first", [0.0, 1e-9, 0.3, 1.0])
@pytest.mark.parametrize("second", [1e-6, 0.3, 0.9])
def test_divergence_of_two_coins(first, second):
    expected = stats.entropy([first, 1 - first], [second, 1 - second])
    assert direct_bounds._divergence(first, second) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_divergence_of_an_impossible_coin_is_infinite():
    assert direct_bounds._divergence(0.5, 0.0) == math.inf
