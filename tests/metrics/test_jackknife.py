"""Intervals against a loop that leaves one client out at a time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tff_keyboard.metrics.jackknife import difference_interval, ratio_interval

COUNTS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=3, max_size=12)


def python_jackknife(statistic, clients, level=0.95):
    """(value, low, high) of `statistic(list of clients)`."""
    value = statistic(clients)
    n = len(clients)
    without = [statistic(clients[:k] + clients[k + 1 :]) for k in range(n)]
    mean = sum(without) / n
    error = math.sqrt((n - 1) / n * sum((x - mean) ** 2 for x in without))
    reach = stats.t(n - 1).interval(level)[1] * error
    return value, value - reach, value + reach


def ratio(clients):
    return sum(a for a, _ in clients) / sum(b for _, b in clients)


@settings(max_examples=50, deadline=None)
@given(COUNTS, st.sampled_from([0.5, 0.95]))
def test_ratio_matches_python(clients, level):
    interval = ratio_interval(*np.array(clients).T, level=level)
    np.testing.assert_allclose(
        interval[:3], python_jackknife(ratio, clients, level), rtol=1e-9, atol=1e-9
    )
    assert interval.clients == len(clients)


@settings(max_examples=50, deadline=None)
@given(COUNTS, st.randoms())
def test_difference_matches_python(first, random):
    second = [(random.randint(0, 50), b) for _, b in first]

    def difference(pairs):
        return ratio([p[0] for p in pairs]) - ratio([p[1] for p in pairs])

    interval = difference_interval(*np.array(first).T, *np.array(second).T)
    expected = python_jackknife(difference, list(zip(first, second, strict=True)))
    np.testing.assert_allclose(interval[:3], expected, rtol=1e-9, atol=1e-9)


def test_a_model_does_not_differ_from_itself():
    hits, words = np.array([3, 9, 1]), np.array([10, 20, 5])
    assert difference_interval(hits, words, hits, words)[:3] == (0.0, 0.0, 0.0)


def test_equal_denominators_give_the_t_interval_of_the_mean():
    values = np.random.default_rng(0).normal(size=20)
    interval = ratio_interval(values, np.ones(20))
    expected = stats.t(19, values.mean(), values.std(ddof=1) / math.sqrt(20)).interval(0.95)
    np.testing.assert_allclose([interval.low, interval.high], expected)


def test_coverage():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(400):  # words per client vary, hits are binomial with a client's own rate
        words = rng.integers(20, 200, 30)
        interval = ratio_interval(rng.binomial(words, rng.beta(4, 16, 30)), words)
        inside += interval.low <= 0.2 <= interval.high
    assert 0.90 < inside / 400 < 0.98  # standard deviation of the share is 0.011


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
