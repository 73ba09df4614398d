"""Tail statistics on samples of known distributions, and formulas against numeric integration."""

import dataclasses
import math
import statistics
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from tests.support.examples import examples
from tff_keyboard_lab.audits import tail_statistics
from tff_keyboard_lab.audits.tail_statistics import (
    MIN_TAIL,
    TAIL_FRACTIONS,
    TailFit,
    direct_delta,
    estimated_delta,
    estimated_epsilon,
    fit_tail,
    hill_estimate,
    pareto_log_scale,
    tail_delta,
    tail_epsilon,
)

TRIALS = 400  # of simulated p-values: coarser than the default, and fast


def pareto_logs(rng, alpha, size, log_minimum=0.0):
    """Returns ln c with P(c > x) = (x / x_min)^-alpha."""
    return log_minimum + rng.exponential(1 / alpha, size)


def reweighted_logs(rng, size, spread):
    """Returns ln c of two Gaussians whose means differ: E[c] = 1, and log c is Gaussian."""
    return rng.normal(-(spread**2) / 2, spread, size)


# Hill's estimate


def test_hill_matches_its_formula():
    logs = np.random.default_rng(0).normal(size=50)
    ordered = sorted(logs, reverse=True)
    expected = 1 / statistics.fmean(value - ordered[12] for value in ordered[:12])
    hill = hill_estimate(logs, 12)
    assert hill.alpha == pytest.approx(expected, rel=1e-12)
    assert hill.log_threshold == ordered[12]


def test_hill_is_invariant_to_scale_and_order():
    logs = pareto_logs(np.random.default_rng(1), 3.0, 400)
    plain, moved = hill_estimate(logs, 80), hill_estimate(logs[::-1] + 2.5, 80)
    assert moved.alpha == pytest.approx(plain.alpha, rel=1e-9)
    assert moved.log_threshold == pytest.approx(plain.log_threshold + 2.5)


@pytest.mark.parametrize("alpha", [1.3, 4.0, 15.8, 900.0])
@pytest.mark.parametrize("num_tail", [20, 300])
def test_intervals_cover_the_true_exponent_95_times_in_100(alpha, num_tail):
    rng = np.random.default_rng(7)
    covered = above = 0
    for _ in range(500):
        hill = hill_estimate(pareto_logs(rng, alpha, 1500, log_minimum=-0.5), num_tail)
        assert hill.low < hill.alpha < hill.high
        covered += hill.low <= alpha <= hill.high
        above += alpha > hill.high
    # Binomial(500, 0.95): mean 475, standard deviation 4.9. Half of the misses lie on each side.
    assert abs(covered - 475) < 4 * 4.9
    assert 1 <= above <= 30


def test_ties_have_no_finite_exponent():
    assert math.isinf(hill_estimate(np.zeros(30), 20).alpha)


# The formula


def test_figures_of_the_paper():
    """Popov et al. 2018: alpha = 15.8 and C = 3.25 give (0.67, 1e-5)."""
    epsilon = tail_epsilon(1e-5, alpha=15.8, log_scale=math.log(3.25))
    assert epsilon == pytest.approx(0.67, abs=0.01)  # alpha and C are printed to three figures
    assert tail_delta(0.67, alpha=15.8, log_scale=math.log(3.25)) == pytest.approx(1e-5, rel=0.1)


@pytest.mark.parametrize("alpha", [1.5, 3.0, 15.8])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_delta_is_the_expected_excess(alpha, epsilon):
    """E[(c - e^eps)_+] under the Pareto density, integrated numerically over ln c."""
    log_scale = math.log(0.4)

    def integrand(log_c):
        density = 0.4 * alpha * math.exp(-alpha * log_c)  # of ln c
        return (math.exp(log_c) - math.exp(epsilon)) * density

    expected, _ = integrate.quad(integrand, epsilon, epsilon + 60, epsrel=1e-10, limit=200)
    assert tail_delta(epsilon, alpha=alpha, log_scale=log_scale) == pytest.approx(expected, 1e-7)


@examples(100)
@given(
    st.floats(1.01, 5000),
    st.floats(-8, 40),
    st.floats(1e-12, 0.5),
)
def test_epsilon_and_delta_are_inverse(alpha, log_scale, delta):
    epsilon = tail_epsilon(delta, alpha=alpha, log_scale=log_scale)
    there = tail_delta(epsilon, alpha=alpha, log_scale=log_scale)
    if epsilon > 0:
        assert there == pytest.approx(delta, rel=1e-6)
    else:
        assert there <= delta * (1 + 1e-9)


def test_a_tail_without_a_mean_has_infinite_delta():
    assert math.isinf(tail_delta(3.0, alpha=1.0, log_scale=0.0))
    assert math.isinf(tail_epsilon(1e-5, alpha=0.8, log_scale=0.0))
    assert math.isinf(tail_delta(0.0, alpha=900.0, log_scale=900.0))  # no OverflowError
    assert tail_delta(1.0, alpha=math.inf, log_scale=0.0) == 0.0


def test_scale_gives_the_share_of_the_tail_at_its_threshold():
    log_scale = pareto_log_scale(6.0, num_tail=50, num_samples=1000, log_threshold=0.3)
    assert math.exp(log_scale - 6.0 * 0.3) == pytest.approx(0.05)  # P(c > u)


# A whole sample


@pytest.mark.parametrize("alpha", [2.5, 15.8, 400.0])
@pytest.mark.parametrize("seed", range(3))
def test_fit_of_a_pareto_sample_gives_its_exponent_and_delta(alpha, seed):
    """A sample Pareto from x_min = (alpha - 1) / alpha, where E[c] = 1, as for ratios."""
    log_minimum = math.log((alpha - 1) / alpha)
    logs = pareto_logs(np.random.default_rng([seed, int(alpha)]), alpha, 20_000, log_minimum)
    fit = fit_tail(logs, seed=seed, trials=TRIALS).fit
    assert fit.num_tail == 4000  # the whole of it is Pareto, so the largest tail is taken
    assert fit.alpha_low < alpha < fit.alpha_high
    true_log_scale = alpha * log_minimum
    epsilon = tail_epsilon(1e-5, alpha=alpha, log_scale=true_log_scale)
    estimate = estimated_epsilon(logs, fit, 1e-5)
    careful = estimated_epsilon(logs, fit.conservative(), 1e-5)
    assert estimate == pytest.approx(epsilon, rel=0.08)
    assert careful > estimate
    assert careful > epsilon


def test_the_largest_tail_that_passes_is_taken():
    """The top 2 % are Pareto and the rest is uniform: 20, 10 and 5 % must be rejected."""
    rng = np.random.default_rng(9)
    logs = np.concatenate([rng.uniform(-1, 0.2, 19_600), 0.2 + rng.exponential(1 / 8, 400)])
    search = fit_tail(logs, seed=0, trials=TRIALS)
    assert [tail.num_tail for tail in search.tried] == [4000, 2000, 1000, 400]
    assert [tail.p_value < 0.05 for tail in search.tried] == [True, True, True, False]
    assert search.fit == search.tried[-1]
    assert search.fit.alpha_low < 8 < search.fit.alpha_high
    assert search.fit.log_threshold == pytest.approx(0.2, abs=0.001)


def test_a_bounded_tail_is_rejected_at_every_size():
    logs = np.random.default_rng(10).beta(2.0, 0.3, 20_000)  # piles up at its end
    search = fit_tail(logs, seed=0, trials=TRIALS)
    assert search.fit is None
    assert not search.no_difference
    assert len(search.tried) == len(TAIL_FRACTIONS)


def test_identical_models_have_no_tail():
    search = fit_tail(np.zeros(1000), seed=0)
    assert search.no_difference
    assert search.fit is None
    assert search.tried == ()


def test_ties_in_the_tail_are_no_estimate():
    logs = np.concatenate([np.zeros(900), np.full(100, 0.5)])
    search = fit_tail(logs, seed=0, trials=TRIALS)
    assert search.fit is None
    assert not search.no_difference


def test_delta_is_right_below_the_threshold_too(monkeypatch):
    """Log-normal ratios have a known delta(eps), the Gaussian mechanism's; Pareto only helps
    beyond the threshold."""
    spread = 0.5
    logs = reweighted_logs(np.random.default_rng(11), 200_000, spread)
    monkeypatch.setattr(tail_statistics, "TAIL_FRACTIONS", (0.0005,))
    fit = fit_tail(logs, seed=0, trials=TRIALS).fit
    assert fit is not None
    normal = statistics.NormalDist()
    for epsilon in (0.0, 0.2, 0.5):
        assert epsilon < fit.log_threshold
        expected = normal.cdf(spread / 2 - epsilon / spread) - math.exp(epsilon) * normal.cdf(
            -spread / 2 - epsilon / spread
        )
        assert estimated_delta(logs, fit, epsilon) == pytest.approx(expected, rel=0.03)
    # A log-normal tail is lighter than the Pareto tail fitted to its start: too careful, not less.
    far = 2.2
    expected = normal.cdf(spread / 2 - far / spread) - math.exp(far) * normal.cdf(
        -spread / 2 - far / spread
    )
    assert estimated_delta(logs, fit, far) > expected


@examples(60)
@given(st.integers(0, 1000), st.floats(1.5, 2000), st.floats(1e-9, 0.4))
def test_epsilon_is_the_smallest_that_reaches_delta(seed, alpha, delta):
    logs = pareto_logs(np.random.default_rng(seed), alpha, 400, math.log((alpha - 1) / alpha))
    hill = hill_estimate(logs, 40)
    fit = TailFit(
        num_samples=400,
        num_tail=40,
        log_threshold=hill.log_threshold,
        alpha=max(hill.alpha, 1.1),
        alpha_low=1.05,
        alpha_high=hill.high,
        log_scale=pareto_log_scale(
            max(hill.alpha, 1.1), num_tail=40, num_samples=400, log_threshold=hill.log_threshold
        ),
        statistic=0.1,
        p_value=0.5,
    )
    epsilon = estimated_epsilon(logs, fit, delta)
    assert estimated_delta(logs, fit, epsilon) <= delta * (1 + 1e-6)
    if epsilon > 0:
        assert estimated_delta(logs, fit, epsilon * (1 - 1e-3)) > delta
    assert estimated_epsilon(logs, fit.conservative(), delta) >= epsilon


def test_direct_delta_is_the_sum_over_texts():
    """Drawn from p in exact proportion, so the average is the sum itself."""
    p, other = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    log_ratios = np.repeat(np.log(other / p), [500, 300, 200])
    for epsilon in (0.0, 0.4, 2.0):
        expected = np.maximum(p - math.exp(epsilon) * other, 0).sum()
        assert direct_delta(log_ratios, epsilon) == pytest.approx(expected, abs=1e-12)
    assert direct_delta(np.full(3, 800.0), 1.0) == 0.0  # no overflow


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_tail_and_direct_estimate_agree_in_their_common_range(epsilon):
    """c Pareto under p' means c Pareto under p, with an exponent that is less by one."""
    alpha, size = 12.0, 40_000
    log_minimum = math.log((alpha - 1) / alpha)
    rng = np.random.default_rng(15)
    under_other = pareto_logs(rng, alpha, size, log_minimum)  # ln p / p', drawn from p'
    under_own = -pareto_logs(rng, alpha - 1, size, log_minimum)  # ln p' / p, drawn from p
    fit = fit_tail(under_other, seed=0, trials=TRIALS).fit
    tail = estimated_delta(under_other, fit, epsilon)
    direct = direct_delta(under_own, epsilon)
    truth = tail_delta(epsilon, alpha=alpha, log_scale=alpha * log_minimum)
    assert tail == pytest.approx(truth, rel=0.1)
    assert direct == pytest.approx(truth, rel=0.1)


def test_conservative_keeps_the_share_of_the_tail():
    logs = pareto_logs(np.random.default_rng(12), 5.0, 2000)
    fit = fit_tail(logs, seed=0, trials=TRIALS).fit
    careful = fit.conservative()
    assert careful.alpha == fit.alpha_low
    shares = [math.exp(f.log_scale - f.alpha * f.log_threshold) for f in (fit, careful)]
    assert shares == pytest.approx([fit.num_tail / 2000] * 2)
    assert dataclasses.replace(careful, alpha=fit.alpha, log_scale=fit.log_scale) == fit


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hill_estimate(np.zeros(10), 10), "`num_tail` .* got 10"),
        (lambda: hill_estimate(np.zeros(10), 0), "`num_tail` .* got 0"),
        (lambda: hill_estimate(np.array([0.0, np.inf]), 1), "finite"),
        (lambda: tail_epsilon(0.0, alpha=2, log_scale=0), "`delta` .* got 0.0"),
        (lambda: tail_epsilon(1.0, alpha=2, log_scale=0), "`delta` .* got 1.0"),
        (lambda: fit_tail(np.arange(90.0), seed=0), "at least 100 texts"),
        (lambda: fit_tail(np.full(500, np.nan), seed=0), "finite"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_epsilon_below_zero_is_refused():
    logs = pareto_logs(np.random.default_rng(13), 5.0, 1000)
    fit = fit_tail(logs, seed=0, trials=TRIALS).fit
    with pytest.raises(ValueError, match="`epsilon` must be >= 0"):
        estimated_delta(logs, fit, -0.1)
    with pytest.raises(ValueError, match="`epsilon` must be >= 0"):
        direct_delta(logs, -0.1)


def test_a_hundred_texts_are_enough_to_try():
    logs = pareto_logs(np.random.default_rng(14), 5.0, 100)
    assert fit_tail(logs, seed=0, trials=TRIALS).tried[0].num_tail == MIN_TAIL


def test_imports_no_tensorflow():
    code = "import sys, tff_keyboard_lab.audits.tail_statistics; print('tensorflow' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "False"
