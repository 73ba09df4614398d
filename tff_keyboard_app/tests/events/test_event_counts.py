"""Counts by hand, and a replay against what `evaluate` counts on the same text."""

import itertools
import math

import numpy as np
import pytest

from tests.support import hybrid_fakes
from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard_app.events import event_counts, replay
from tff_keyboard_app.events.event_counts import COUNTS, StripOutcome


def strip(**changes):
    fields = {"place": 0, "prefix": 2, "words": ("i", "see", "we"), "rank": 1, "latency_us": 640}
    return StripOutcome(**{**fields, **changes})


def test_counts_by_hand():
    strips = [
        strip(prefix=0, rank=2, deleted=True, latency_us=900),
        strip(prefix=0, rank=None, place=4, latency_us=1001),  # after the last word
        strip(prefix=3, rank=0, latency_us=200_000),
        strip(words=(), rank=None),  # an empty strip is none
    ]
    counts = event_counts.count(strips, ["we", "see", "you", "there"])
    actual = dict(zip(COUNTS, counts, strict=True))
    expected = {
        **{"strips": 3, "suggestions": 9, "accepted": 2, "deleted": 1},
        **{"next_word_strips": 2, "next_word_matches": 1},
        **{"zero_state_strips": 1, "zero_state_matches": 1},
        **{"accepted_at_1": 1, "accepted_at_3": 1},
        **{"latency_to_1_ms": 1, "latency_to_2_ms": 1, "latency_above": 1},
    }
    assert {name: value for name, value in actual.items() if value} == expected
    figures = event_counts.figures_of_sums(counts)
    assert figures["click_through_rate"] == pytest.approx(2 / 9)
    assert figures["taken_back"] == 0.5
    assert event_counts.latency_quantile(counts, 0.5) == 2
    assert math.isinf(event_counts.latency_quantile(counts, 0.99))


def test_an_empty_log_has_no_figures():
    nothing = event_counts.count([], [])
    assert all(math.isnan(value) for value in event_counts.figures_of_sums(nothing).values())
    assert math.isnan(event_counts.latency_quantile(nothing, 0.5))


def test_intervals_are_over_people():
    clients = [[strip()] * n for n in (3, 5, 8)] + [[strip(rank=None)]]
    counts = np.array([event_counts.count(strips, ["see"]) for strips in clients])
    interval = event_counts.figures(counts)["accepted_a_strip"]
    assert interval.value == pytest.approx(16 / 17)
    assert interval.clients == 4


def test_intervals_of_shares_stay_between_0_and_1():
    counts = np.zeros((3, len(COUNTS)))
    counts[:, COUNTS.index("strips")] = [1, 1, 10]
    counts[:, COUNTS.index("accepted")] = [1, 0, 0]
    interval = event_counts.figures(counts)["accepted_a_strip"]
    assert interval.low == 0.0 < interval.value < interval.high <= 1.0


def an_ngram_and_its_text():
    vocabulary = vocabulary_of(20)
    ids = messages_of(1, 40, size=20, longest=5)
    messages = [[vocabulary.words[i] for i in message if i > OOV] for message in ids]
    return NGramPredictor.train(ids, vocabulary, order=2), messages


def a_hybrid_that_knows_somebody_else():
    predictor = hybrid_fakes.hybrid()
    hybrid_fakes.learn(predictor, hybrid_fakes.typed_by(1, seed=2))
    return predictor, hybrid_fakes.typed_by(1, seed=4, messages=40).messages[0]


@pytest.mark.parametrize("made", [an_ngram_and_its_text, a_hybrid_that_knows_somebody_else])
def test_a_replay_has_the_impression_recall_of_evaluate(made):
    predictor, messages = made()
    text = TypedText("t", ("p",), (messages,))
    counts = replay.replay(predictor, messages, clock=itertools.count().__next__)
    if isinstance(predictor, HybridPredictor):
        assert not predictor.cache.words
    sums = predictor_evaluation.evaluate(predictor, text).sums
    actual = dict(zip(COUNTS, counts, strict=True))
    assert actual["next_word_strips"] == sums["impressions"][0]
    assert actual["next_word_matches"] == sums["impression_matches"][0]
    assert actual["zero_state_matches"] == sums["zero_state_matches"][0]
    assert 0 < actual["next_word_matches"] < actual["next_word_strips"]
    assert actual["latency_above"] == actual["strips"]  # this clock takes a second
