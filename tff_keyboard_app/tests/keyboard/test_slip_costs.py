"""Costs of typing one string for another: against all ways to cut both, and of a packaged table."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.slip_costs import (
    ANY_ADDED,
    ANY_CHANGE,
    ANY_LEFT_OUT,
    ANY_SWAP,
    BAND,
    END,
    FIRST_LETTER,
    START,
    SlipCosts,
    packaged_slips,
    slips_by_hand,
)

DEFAULTS = {
    (ANY_CHANGE, ""): 7.0,
    (ANY_ADDED, ""): 6.0,
    (ANY_LEFT_OUT, ""): 5.0,
    (ANY_SWAP, ""): 4.0,
    (FIRST_LETTER, ""): 2.0,
}
TABLE = DEFAULTS | {
    ("a", "b"): 1.5,
    ("a", ""): 3.0,
    ("", "c"): 2.5,
    ("ab", "ba"): 1.0,
    ("cc", "c"): 0.5,
    ("c", "cc"): 0.75,
    ("abc", "bac"): 0.25,
    ("bca", "acb"): 0.3,
    ("ab", "ccc"): 0.9,
    ("a$", "$"): 0.4,
    ("^b", "^cb"): 0.6,
    ("^", "^a"): 1.1,
}
LETTERS = "abcd"


def cost_of(table, meant, typed):
    """The cost of one piece; infinite if the table does not have it."""
    if meant == typed and len(meant) == 1:
        return 0.0
    if (meant, typed) in table:
        return table[meant, typed]
    if {*meant, *typed} & {START, END}:
        return math.inf
    if len(meant) == 1 == len(typed):
        return table[ANY_CHANGE, ""]
    if len(meant) == 0 and len(typed) == 1:
        return table[ANY_ADDED, ""]
    if len(meant) == 1 and len(typed) == 0:
        return table[ANY_LEFT_OUT, ""]
    if len(meant) == 2 and meant[0] != meant[1] and typed == meant[::-1]:
        return table[ANY_SWAP, ""]
    return math.inf


def plain(table, meant, typed):
    """The smallest sum over all ways to cut both strings."""
    meant, typed = f"{START}{meant}{END}", f"{START}{typed}{END}"

    @functools.cache
    def best(i, j):
        if i == j == 0:
            return 0.0
        if abs(i - j) > BAND:
            return math.inf
        actual = [math.inf]
        for p in range(min(3, i) + 1):
            for q in range(min(3, j) + 1):
                if p + q:
                    step = cost_of(table, meant[i - p : i], typed[j - q : j])
                    if (i - p, j - q) == (1, 1) and step > 0:
                        step += table[FIRST_LETTER, ""]
                    actual.append(best(i - p, j - q) + step)
        return min(actual)

    return best(len(meant), len(typed))


WORDS = st.text("abcd", min_size=1, max_size=7)


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
@examples(300)
def test_costs_are_those_of_all_ways_to_cut(words, typed):
    costs = SlipCosts(TABLE, LETTERS)
    expected = [plain(TABLE, word, typed) for word in words]
    np.testing.assert_allclose(costs.costs(typed, costs.coded(words)), expected, rtol=1e-5)


def test_a_word_for_itself_costs_nothing_and_far_or_foreign_words_are_never_meant():
    costs = SlipCosts(TABLE, LETTERS)
    actual = costs.costs("abcd", costs.coded(["abcd", "abcdabcd", "a"]))
    assert actual[0] == 0.0
    assert actual[1] == math.inf
    assert actual[2] > 0.0
    assert costs.costs("abéd", costs.coded(["abcd"]))[0] == math.inf
    assert costs.costs("abcd", costs.coded([])).shape == (0,)


def test_by_hand_keys_vowels_and_marks_are_near():
    slips = slips_by_hand(LANGUAGES["de"])
    assert slips["ü", "u"] < slips["u", "ü"] < slips[ANY_CHANGE, ""]
    assert slips["ü", "ue"] == slips["ü", "u"]
    assert slips["e", "i"] < slips["t", "z"] < slips[ANY_CHANGE, ""]
    assert slips["u", "7"] == slips["t", "z"]
    assert ("q", "p") not in slips


@pytest.mark.parametrize(
    ("meant", "typed", "less_than"),
    [
        ("receive", "recieve", 3.0),
        ("separate", "seperate", 3.0),
        ("sensible", "sensable", 4.0),
        ("definitely", "definately", 6.0),
        ("tomorrow", "tommorow", 6.0),
        ("government", "goverment", 4.5),
    ],
)
def test_what_people_often_type_costs_little(meant, typed, less_than):
    slips = slips_by_hand(LANGUAGES["en"]) | packaged_slips("en")
    costs = SlipCosts(slips, "abcdefghijklmnopqrstuvwxyz'")
    assert costs.costs(typed, costs.coded([meant]))[0] < less_than
