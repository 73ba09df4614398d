"""Lilliefors' test against SciPy, the published table, and other distributions."""

import numpy as np
import pytest
from scipy import stats

from tff_keyboard_lab.audits import lilliefors
from tff_keyboard_lab.audits.lilliefors import lilliefors_exponential

TRIALS = 400  # of simulated p-values: coarser than the default, and fast


def test_statistic_matches_scipy_with_the_mean_given():
    values = np.random.default_rng(3).gamma(0.7, size=60)
    statistic, _ = lilliefors_exponential(values, seed=0, trials=10)
    expected = stats.kstest(values, "expon", args=(0, values.mean())).statistic
    assert statistic == pytest.approx(expected, rel=1e-12)


def test_critical_value_of_lilliefors_table():
    """Lilliefors 1969: with the mean estimated, 5 % of samples of 20 exceed 0.234."""
    rng = np.random.default_rng(4)
    distances = lilliefors._exponential_distance(rng.standard_exponential([40_000, 20]))
    assert np.quantile(distances, 0.95) == pytest.approx(0.234, abs=0.004)


def test_p_values_are_uniform_on_exponential_samples_of_any_mean():
    rng = np.random.default_rng(5)
    p_values = [
        lilliefors_exponential(rng.exponential(10 ** rng.uniform(-6, 6), 40), seed=i, trials=99)[1]
        for i in range(400)
    ]
    # Kolmogorov's distance of 400 uniform values is below 0.1 but once in a thousand times.
    assert stats.kstest(p_values, "uniform").statistic < 0.1


@pytest.mark.parametrize(
    "sample",
    [
        lambda rng: rng.uniform(size=200),
        lambda rng: rng.gamma(4.0, size=200),
        lambda rng: rng.lognormal(0.0, 2.0, size=200),
        lambda rng: np.full(200, 1.7),
    ],
    ids=["uniform", "gamma", "log-normal", "constant"],
)
def test_other_laws_are_rejected(sample):
    statistic, p_value = lilliefors_exponential(
        sample(np.random.default_rng(6)), seed=0, trials=TRIALS
    )
    assert 0 < statistic <= 1
    assert p_value < 0.01


def test_p_value_is_a_function_of_the_seed():
    values = np.random.default_rng(8).exponential(size=30)
    first = lilliefors_exponential(values, seed=1, trials=TRIALS)
    assert first == lilliefors_exponential(values, seed=1, trials=TRIALS)
    assert first[1] != lilliefors_exponential(values, seed=2, trials=TRIALS)[1]
    assert lilliefors_exponential(np.zeros(5), seed=1) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lilliefors_exponential(np.array([]), seed=0), "at least one"),
        (lambda: lilliefors_exponential(np.array([-1.0]), seed=0), ">= 0"),
        (lambda: lilliefors_exponential(np.ones(3), seed=0, trials=0), "`trials` .* got 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
