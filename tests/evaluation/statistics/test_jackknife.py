"""Intervals against a loop that leaves one client out at a time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.examples import examples
from tests.support.truth import jackknife_truth
from tff_keyboard.evaluation.statistics.jackknife import (
    Interval,
    difference_interval,
    effective_number,
    ratio_interval,
    with_seeds,
)

COUNTS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=3, max_size=12)


def python_jackknife(statistic, clients, weights, level=0.95):
    """Returns (value, low, high) of `statistic(list of clients)`."""
    value = statistic(clients)
    without = [statistic(clients[:k] + clients[k + 1 :]) for k in range(len(clients))]
    reach = jackknife_truth.reach(without, weights, level)
    return value, value - reach, value + reach


def ratio(clients):
    return sum(a for a, _ in clients) / sum(b for _, b in clients)


# Degrees of freedom depend on a fourth moment, which cancels if values are nearly equal: hence
# 1e-7 and not 1e-9.
@examples(50)
@given(COUNTS, st.sampled_from([0.5, 0.95]))
def test_ratio_matches_python(clients, level):
    interval = ratio_interval(*np.array(clients).T, level=level)
    np.testing.assert_allclose(
        interval[:3],
        python_jackknife(ratio, clients, [b for _, b in clients], level),
        rtol=1e-7,
        atol=1e-7,
    )
    assert interval.clients == len(clients)


@examples(50)
@given(COUNTS, st.randoms())
def test_difference_matches_python(first, random):
    second = [(random.randint(0, 50), b) for _, b in first]

    def difference(pairs):
        return ratio([p[0] for p in pairs]) - ratio([p[1] for p in pairs])

    interval = difference_interval(*np.array(first).T, *np.array(second).T)
    weights = [b for _, b in first]
    expected = python_jackknife(difference, list(zip(first, second, strict=True)), weights)
    np.testing.assert_allclose(interval[:3], expected, rtol=1e-7, atol=1e-7)


def test_difference_of_a_model_to_itself_is_zero():
    hits, words = np.array([3, 9, 1]), np.array([10, 20, 5])
    assert difference_interval(hits, words, hits, words)[:3] == (0.0, 0.0, 0.0)


def test_equal_denominators_give_the_t_interval_of_the_mean():
    values = np.random.default_rng(0).normal(size=20)
    interval = ratio_interval(values, np.ones(20))
    expected = stats.t(19, values.mean(), values.std(ddof=1) / math.sqrt(20)).interval(0.95)
    np.testing.assert_allclose([interval.low, interval.high], expected)


def test_one_dominant_client_leaves_one_degree_of_freedom():
    hits, words = np.full(1000, 5.0), np.full(1000, 10.0)
    others = hits.copy()
    others[7] += 1
    actual = difference_interval(others, words, hits, words)
    reach = stats.t(1000 / 996).ppf(0.975) * actual.standard_error  # g is 1,000 - 1 + 1/999 - 3
    assert actual.high == pytest.approx(actual.value + reach, rel=0.01)
    assert actual.low < 0 < actual.high


def test_coverage():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):  # words per client vary; hits are binomial with the client's rate
        words = rng.integers(20, 200, 30)
        interval = ratio_interval(rng.binomial(words, rng.beta(4, 16, 30)), words)
        inside += interval.low <= 0.2 <= interval.high
    assert 0.90 < inside / 400 < 0.98  # standard deviation of the share is 0.011


# Words typed by the 51 held-out clients of the SMS corpus: three of them typed two thirds.
# fmt: off
SMS_WORDS = np.array([
    30591, 21799, 15530, 8735, 8097, 4202, 2740, 2486, 2094, 1652, 957, 728, 530, 509, 309,
    265, 218, 195, 182, 181, 161, 109, 82, 81, 72, 70, 69, 67, 58, 57, 53, 52, 50, 44, 38, 32,
    32, 31, 28, 27, 26, 26, 21, 21, 17, 5, 4, 4, 4, 3, 1
])
# fmt: on


@pytest.mark.parametrize(
    ("sizes", "plain_least", "plain_most"),
    [(SMS_WORDS, 0.0, 0.91), (np.full(51, 2000), 0.93, 0.97)],
    ids=["sms", "equal"],
)
def test_coverage_if_few_clients_typed_most(sizes, plain_least, plain_most):
    """Rates of clients differ by 5 points; K - 1 degrees of freedom cover too little on SMS."""
    rng = np.random.default_rng(0)
    trials, truth = 2000, 0.17
    covered = covered_by_plain = 0
    plain = stats.t(len(sizes) - 1).ppf(0.975)
    for _ in range(trials):
        rates = np.clip(truth + 0.05 * rng.standard_normal(len(sizes)), 0, 1)
        actual = ratio_interval(rng.binomial(sizes, rates), sizes)
        covered += actual.low <= truth <= actual.high
        covered_by_plain += abs(actual.value - truth) <= plain * actual.standard_error
    assert 0.935 < covered / trials < 0.975  # standard deviation of the share is 0.005
    assert plain_least < covered_by_plain / trials < plain_most


def test_effective_number_of_clients():
    assert ratio_interval(np.ones(4), np.full(4, 7.0)).effective_clients == pytest.approx(4)
    assert ratio_interval(np.ones(51), SMS_WORDS).effective_clients == pytest.approx(5.8, abs=0.05)
    # One client typed almost everything: one degree of freedom is the minimum.
    lonely = ratio_interval(np.array([500.0, 1.0]), np.array([1000.0, 1.0]))
    reach = stats.t(1).ppf(0.975) * lonely.standard_error
    assert lonely.high == pytest.approx(lonely.value + reach)
    assert effective_number(np.zeros(3)) != effective_number(np.zeros(3))  # nan


def test_clients_without_words_do_not_count():
    with_empty = ratio_interval(np.array([1, 0, 2, 2]), np.array([5, 0, 7, 9]))
    assert with_empty == ratio_interval(np.array([1, 2, 2]), np.array([5, 7, 9]))


def test_too_few_clients():
    one = ratio_interval(np.array([1]), np.array([2]))
    assert one.value == 0.5
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    none = ratio_interval(np.array([]), np.array([]))
    assert math.isnan(none.value)
    assert none.clients == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1]), "vectors of one length"),
        (([[1]], [[1]]), "vectors of one length"),
        (([np.nan, 1], [1, 1]), "must be finite"),
        (([1, 1], [1, -1]), "`denominators` must be >= 0"),
    ],
)
def test_rejects(arguments, message):
    with pytest.raises(ValueError, match=message):
        ratio_interval(*map(np.array, arguments))


def test_rejects_level_and_unpaired_clients():
    with pytest.raises(ValueError, match=r"`level` must be in \(0, 1\)"):
        ratio_interval(np.ones(3), np.ones(3), level=1.0)
    with pytest.raises(ValueError, match="same clients, got 2 and 3"):
        difference_interval(np.ones(2), np.ones(2), np.ones(3), np.ones(3))


def test_seeds_widen_an_interval_by_the_scatter_of_their_mean():
    people = Interval(0.2, 0.1, 0.25, 0.04, 60, 30.0)
    actual = with_seeds(people, [0.1, 0.15, 0.35])
    scatter = jackknife_truth.reach_with_seeds(0.0, [0.1, 0.15, 0.35])
    assert actual.low == pytest.approx(0.2 - math.hypot(0.1, scatter))
    assert actual.high == pytest.approx(0.2 + math.hypot(0.05, scatter))
    assert actual[4:] == people[4:]
    assert with_seeds(people, [0.2]) == people  # one seed gives no information
    np.testing.assert_allclose(with_seeds(people, [0.2, 0.2, 0.2]), people)  # no scatter


@pytest.mark.parametrize("scatter", [0.0, 1.0, 10.0], ids=["people", "both", "seeds"])
def test_coverage_over_clients_and_seeds(scatter):
    """The true value, 0, is inside at least as often as stated, whichever source varies more."""
    rng = np.random.default_rng(0)
    reach, covered, trials = stats.norm.ppf(0.975), 0, 2000
    for _ in range(trials):
        seeds = rng.standard_normal() + scatter * rng.standard_normal(3)
        mean = seeds.mean()
        joint = with_seeds(Interval(mean, mean - reach, mean + reach, 1.0, 99), list(seeds))
        covered += joint.low <= 0 <= joint.high
    assert 0.94 < covered / trials < 0.985  # standard deviation of the share is 0.005
