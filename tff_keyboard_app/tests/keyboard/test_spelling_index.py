"""Words that may be meant by a typed string: none is lost that is near, and none is far."""

import functools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.slip_costs import SlipCosts, slips_by_hand
from tff_keyboard_app.keyboard.spelling_index import MAX_COST, SpellingIndex, edits_allowed

LETTERS = "abcdefghijklmnopqrstuvwxyz'"
COSTS = SlipCosts(slips_by_hand(LANGUAGES["en"]), LETTERS)


def edits(word, typed):
    """Restricted Damerau-Levenshtein distance."""

    @functools.cache
    def best(i, j):
        if not i or not j:
            return i + j
        actual = [
            best(i - 1, j) + 1,
            best(i, j - 1) + 1,
            best(i - 1, j - 1) + (word[i - 1] != typed[j - 1]),
        ]
        if i > 1 and j > 1 and word[i - 2 : i] == typed[j - 2 : j][::-1]:
            actual.append(best(i - 2, j - 2) + 1)
        return min(actual)

    return best(len(word), len(typed))


WORDS = st.text("abeiort", min_size=2, max_size=9)


@given(st.lists(WORDS, min_size=1, max_size=12, unique=True), WORDS)
@examples(300)
def test_all_words_within_the_edits_are_found_with_their_costs(words, typed):
    actual = SpellingIndex(words, COSTS).near(typed)
    for word in words:
        cost = float(COSTS.costs(typed, COSTS.coded([word]))[0])
        is_near = 0 < edits(word, typed) <= edits_allowed(len(typed)) and cost <= MAX_COST
        has_like_letters = len(set(typed) ^ set(word)) <= 2
        if is_near and has_like_letters:
            assert actual[word] == pytest.approx(math.exp(-cost), rel=1e-4)
        elif word in actual:
            assert is_near


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("abberation", "aberration"),
        ("recieve", "receive"),
        ("tommorow", "tomorrow"),
        ("goverment", "government"),
        ("acomodate", "accommodate"),
        ("teh", "the"),
    ],
)
def test_common_misspellings_are_near(typed, meant):
    index = SpellingIndex([meant, "completely", "different", "of"], COSTS)
    assert list(index.near(typed)) == [meant]


def test_of_very_many_near_words_the_most_probable_are_kept():
    rare = [f"{a}{b}th" for a in "abcdefghijklmnopqrs" for b in "abcdefghijklmnopqrstuvw"]
    index = SpellingIndex(["that", *rare], COSTS)
    near = index.near("tath")
    assert "that" in near  # two edits, as most of the others
    assert "tath" not in near


def test_limits():
    index = SpellingIndex(
        ["receive", "abc", "a", "x" * 30, "naïve"],
        SlipCosts(slips_by_hand(LANGUAGES["en"]), LETTERS + "ï"),
    )
    assert index.near("receive") == {}  # itself
    assert index.near("r") == index.near("x" * 30) == index.near("receivé") == {}
    assert list(index.near("naive")) == ["naïve"]
    assert SpellingIndex([], COSTS).near("receive") == {}
    assert index.likely("recieve", ["receive", "zebra", "recieve", "é"]).keys() == {"receive"}
    assert index.likely("recieve", []) == {}
