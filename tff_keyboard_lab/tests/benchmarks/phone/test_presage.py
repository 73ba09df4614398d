"""Counts of words typed with two keyboards."""

import pytest

from tff_keyboard_lab.benchmarks.phone import presage


def suggest(text):
    """Offers "you" as the second next word, and "I'm" and "Today" once a letter is typed."""
    if text.endswith(" ") or not text:
        return ["see", "you"]
    return [word for word in ("Today", "I'm") if word.lower().startswith(text.split()[-1])]


def test_counts():
    counts = presage.type_messages(suggest, [["see", "you", "today", "7:30", "don't"], ["im"]])
    # "see" at once and best, "you" at once, "today" and "im" after a letter; the others are no
    # words of letters
    assert counts == {"words": 4, "characters": 13, "typed": 2, "top-1": 1, "top-3": 2}


def test_a_word_that_is_never_offered_is_typed():
    assert presage.letters_needed(suggest, "", "tomorrow") == (8, False)


def test_shares():
    counts = {"words": 4, "characters": 10, "typed": 4, "top-1": 1, "top-3": 2}
    assert presage.shares(counts) == {
        "words": 4,
        "top-1": 25.0,
        "top-3": 50.0,
        "keystrokes saved": pytest.approx(60.0),
    }
