"""Costs learned of pairs: expected uses over all ways to cut two words, and what comes out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard_app.keyboard import slip_costs
from tff_keyboard_lab.tools import halves, learn_slips

SHARES = {
    ("a", "b"): 0.1,
    ("b", "a"): 0.2,
    ("a", ""): 0.05,
    ("b", ""): 0.04,
    ("", "a"): 0.03,
    ("", "b"): 0.02,
    ("ab", "ba"): 0.3,
    ("ab", "a"): 0.15,
    ("^a", "^b"): 0.25,
    ("b$", "$"): 0.35,
}


def all_cuts(meant, typed, ahead=0):
    """Every way to cut both words into pieces, as lists; at most three letters apart."""
    if abs(ahead) > 3:
        return
    if not meant and not typed:
        yield []
    for p in range(min(3, len(meant)) + 1):
        for q in range(min(3, len(typed)) + 1):
            piece = meant[:p], typed[:q]
            if p + q and (piece in SHARES or (p == q == 1 and piece[0] == piece[1])):
                for rest in all_cuts(meant[p:], typed[q:], ahead + p - q):
                    yield [piece, *rest]


@given(st.text("ab", min_size=1, max_size=4), st.text("ab", min_size=1, max_size=4))
@examples(200)
def test_expected_uses_are_those_of_all_ways_to_cut(meant, typed):
    meant, typed = f"^{meant}$", f"^{typed}$"
    cut = learn_slips.pieces_of(meant, typed)
    actual = learn_slips.expected_uses([cut], [(len(meant), len(typed))], SHARES)
    total, expected = 0.0, {}
    for pieces in all_cuts(meant, typed):
        edits = [piece for piece in pieces if piece[0] != piece[1]]
        chance = math.prod(SHARES[piece] for piece in edits)
        total += chance
        for piece in edits:
            expected[piece] = expected.get(piece, 0.0) + chance
    for piece, uses in expected.items():
        assert actual[piece] == pytest.approx(uses / total, rel=1e-9)
    assert set(actual) == set(expected)


def test_what_is_alike_at_both_ends_is_left_out():
    assert learn_slips.trimmed("believe", "beleive") == ("believe$", "beleive$")
    assert learn_slips.trimmed("unbelievable", "unbeleivable") == ("believab", "beleivab")
    assert learn_slips.trimmed("hapy", "happy") == ("hapy$", "happy$")


def test_a_confusion_that_many_pairs_have_costs_less_than_others():
    words = ["receive", "deceive", "conceive", "perceive", "ceiling", "receipt", "deceit"]
    pairs = [(word.replace("ei", "ie"), word) for word in words]
    table = learn_slips.learn(pairs, "en")
    assert table["ei", "ie"] < table[slip_costs.ANY_SWAP, ""] - 2.0
    assert ("an", "na") not in table  # the default says it
    assert {name for name, typed in table if len(name) > 3} >= {
        slip_costs.ANY_CHANGE,
        slip_costs.ANY_ADDED,
        slip_costs.ANY_LEFT_OUT,
        slip_costs.ANY_SWAP,
        slip_costs.FIRST_LETTER,
    }


def test_the_packaged_table_is_in_the_form_that_is_read():
    table = slip_costs.packaged_slips("en")
    assert len(table) > 1_000
    assert all(len(meant) <= 3 and len(typed) <= 3 for meant, typed in table if typed)
    assert all(cost >= 0.0 for cost in table.values())


def test_halves_are_told_by_the_first_byte():
    names = [str(number) for number in range(1_000)]
    tuning = {name for name in names if halves.is_in(name, "tuning")}
    assert 400 < len(tuning) < 600
    assert {name for name in names if halves.is_in(name, "test")} == set(names) - tuning
    assert all(halves.is_in(name, "all") for name in names)
