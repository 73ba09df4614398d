"""Deciles, worst tenth, shares and groups of clients against NumPy."""

import math

import numpy as np
import pytest
from scipy import stats

from tff_keyboard.evaluation.statistics import clients
from tff_keyboard.evaluation.statistics.breakdown import breakdown

WORDS = np.array([900, 100, 150, 100, 400, 100, 100, 100, 100, 120, 100, 5])
HITS = np.array([90, 20, 45, 10, 40, 30, 11, 12, 13, 24, 50, 5])


def sums_of(words=WORDS, hits=HITS):
    words = np.asarray(words)
    return {
        "tokens": words + 7,
        "eos_tokens": np.full(len(words), 7),
        "hits_at_1": np.asarray(hits),
        "nll": words * 2.0,
    }


def test_clients_with_enough_words_have_equal_weight():
    actual = clients.spread(sums_of(), "recall_at_1_no_eos")
    values = (HITS / WORDS)[:-1]  # the last client has only five words
    assert actual.mean.value == pytest.approx(values.mean())
    expected = stats.t(10, values.mean(), stats.sem(values)).interval(0.95)
    np.testing.assert_allclose([actual.mean.low, actual.mean.high], expected)
    np.testing.assert_allclose(actual.deciles, np.quantile(values, np.arange(1, 10) / 10))
    assert actual.worst_tenth == pytest.approx(np.sort(values)[:2].mean())  # 2 of 11, rounded up


def test_all_count_if_there_are_few_clients():
    actual = clients.spread(sums_of([10, 20, 0], [1, 4, 0]), "recall_at_1_no_eos")
    assert actual.mean.value == pytest.approx(0.15)
    nobody = clients.spread(sums_of([0], [0]), "recall_at_1_no_eos")
    assert math.isnan(nobody.mean.value)
    assert all(math.isnan(decile) for decile in nobody.deciles)


def test_the_worst_tenth_of_a_perplexity_is_the_highest():
    sums = sums_of()
    sums["nll"] = np.arange(1.0, 13.0) * sums["tokens"]
    actual = clients.spread(sums, "perplexity")
    nats = np.arange(1.0, 12.0)  # of the clients that count
    assert actual.worst_tenth == pytest.approx(math.exp(nats[-2:].mean()))
    assert actual.mean.value == pytest.approx(math.exp(nats.mean()))
    assert list(actual.deciles) == sorted(actual.deciles)


def test_share_of_clients_better_off():
    worse = sums_of(hits=np.where(np.arange(12) < 3, HITS + 1, HITS - 1))
    worse["hits_at_1"][10] = HITS[10]  # a tie counts half
    actual = clients.share_better(sums_of(), worse, "recall_at_1_no_eos")
    assert actual.value == pytest.approx((7 + 0.5) / 11)
    lower = dict(sums_of(), nll=WORDS * 1.0)
    assert clients.share_better(lower, sums_of(), "nats_per_token").value == 1.0


def test_heavy_users_typed_half():
    groups = clients.typists(sums_of())
    assert np.flatnonzero(groups["heavy"]).tolist() == [0, 4]  # 1,300 of 2,275
    assert not np.any(groups["heavy"] & groups["light"])
    assert np.all(groups["heavy"] | groups["light"])
    heavy, light = breakdown(sums_of(), {})["typists"].values()
    assert heavy.intervals["recall_at_1_no_eos"].value == pytest.approx(130 / 1300)
    assert (heavy.clients, heavy.share, light.share) == (2, 1300 / 2275, 975 / 2275)


def test_heavy_users_are_the_smallest_group_with_half():
    groups = clients.typists(sums_of([10, 10, 10, 10], [1, 1, 1, 1]))
    assert groups["heavy"].tolist() == [True, True, False, False]  # the third begins at half
