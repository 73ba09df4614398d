"""Places of a text, and the counts on a keyboard of which the answers are known."""

import types

import pytest

from tff_keyboard_lab.benchmarks.phone import confused
from tff_keyboard_lab.benchmarks.phone.confused import Benchmark, Counts, Place

PAIRS = {"than": ("then",), "then": ("than",), "may be": ("maybe",)}


class Keyboard:
    """Changes "then" before "me", offers "than" for "then", and "may be" for "maybe" at once."""

    code = "en"

    def keyboard_strip(self, text):
        after = None
        if text.endswith("then me"):
            after = f"{text.removesuffix('then me')}than me "
        elif text.endswith("maybe"):
            after = f"{text.removesuffix('maybe')}may be "
        slots = [types.SimpleNamespace(inserts="than "), None] if text.endswith("then") else [None]
        correction = types.SimpleNamespace(applied_to=lambda _: after) if after else None
        return types.SimpleNamespace(slots=slots, correction=correction)


def test_places_are_words_and_pairs_of_words_with_the_next_word():
    actual = list(confused.places("Better than me, (then", "en"))
    assert actual[:2] == [
        Place("better", "", "Better", " than"),
        Place("better than", "", "Better than", " me"),
    ]
    assert actual[-1] == Place("me", "Better than ", "me", "")
    assert [place.words for place in actual] == ["better", "better than", "than", "than me", "me"]


def test_swapped_words_are_counted():
    benchmark = Benchmark(Keyboard(), PAIRS)
    counts = benchmark.count(["Better than me", "older than you", "I may be late"], 10)
    half = confused.half_of("then", "than")
    other = confused.half_of("maybe", "may be")
    total = sum(count.swapped for count in counts.values())
    assert total == 3
    assert counts[half].corrected + (counts[other].corrected if other != half else 0) == 2
    assert sum(count.offered for count in counts.values()) == 3
    assert benchmark.missed == {("then", "than"): 1}


def test_changed_right_words_are_counted_with_their_share_of_all_words():
    benchmark = Benchmark(Keyboard(), PAIRS)
    counts = benchmark.count(["and then me", "so then we go"], 10)
    count = counts[confused.half_of("then", "than")]
    assert (count.right, count.changed) == (2, 1)
    assert count.changed_of_all == pytest.approx(1 / 7)  # "then" is 2 of 7 words
    assert benchmark.changes == [("and then", " me", "than me")]


def test_pairs_of_a_language_go_both_ways_except_words_that_are_only_meant():
    pairs = confused.confused_pairs("en")
    assert "then" in pairs["than"]
    assert "than" in pairs["then"]
    assert "of" in pairs["have"]
    assert "have" not in pairs["of"]


def test_the_table_has_a_line_for_each_half():
    lines = confused.table("chat", {"tuning": Counts(8, 6, 4, 9, 1, 0.5), "test": Counts()})
    assert lines.splitlines()[0].split() == [
        "chat", "tuning", "pairs", "8", "75.0%", "50.0%", "9", "1", "50.0000%",
    ]  # fmt: skip
