"""A simulated typist who makes slips: the typed strings, and the counts."""

import random
import types

import pytest

from tff_keyboard.data.sources import split
from tff_keyboard_lab.benchmarks.phone import slipping
from tff_keyboard_lab.tools import halves


@pytest.mark.parametrize("kind", list(slipping.KINDS))
def test_a_slip_is_of_its_kind(kind):
    rng = random.Random(1)
    for _ in range(50):
        typed, meant = slipping.slipped("tomorrow", "morning", kind, rng)
        expected = "tomorrow morning" if "space" in kind and kind != "space inside" else "tomorrow"
        assert meant == expected
        length = {"letter more": 9, "left out": 7, "no space": 15, "letter for space": 16}
        assert len(typed) == length.get(kind, 9 if kind == "space inside" else 8)
        if kind == "space inside":
            assert typed.replace(" ", "") == meant
            assert 1 <= typed.index(" ") <= 7
        if kind == "swapped":
            assert sorted(typed) == sorted(meant)
        if kind == "digit":
            assert typed == "5omorrow"


def test_no_word_follows_and_no_digit_is_above():
    rng = random.Random(1)
    assert slipping.slipped("dad", "", "digit", rng) == ("dad", "dad")
    typed, meant = slipping.slipped("no", "", "no space", rng)
    assert (typed, meant) == ("on", "no")


def test_counts():
    class Keyboard:
        """Mends "tomorow" alone, and changes "fine"."""

        def keyboard_strip(self, text):
            word = text.split()[-1]
            made = {"tomorow": "tomorrow", "fine": "fire"}.get(word)
            if made is None:
                return types.SimpleNamespace(correction=None)
            applied = text[: -len(word)] + made + " "
            return types.SimpleNamespace(
                correction=types.SimpleNamespace(applied_to=lambda _: applied)
            )

    rng = random.Random(0)
    counts = slipping.type_messages(Keyboard(), [["fine", "XYZ", "ok"]], {"fine"}, rng)
    assert counts["characters"] == 5 + 4 + 3
    assert counts["right words"] == counts["right words changed"] == 1
    assert counts["keys"] == counts["keys without corrections"] + 1
    assert "slips" not in counts
    many = slipping.type_messages(Keyboard(), [["tomorrow"]] * 2_000, {"tomorrow"}, rng)
    assert 60 < many["slips"] < 140
    assert 0 < many["mended"] < many["mended"] + many["right words"]
    assert many["mended: left out"] == many["mended"]
    assert many["keys"] < many["keys without corrections"]


@pytest.mark.parametrize(
    ("language", "word", "typed"), [("de", "für", "fuer"), ("tr", "ağ", "ag"), ("es", "así", "asi")]
)
def test_marks_are_left_out_where_letters_have_them(language, word, typed):
    rng = random.Random(1)
    actual = {slipping.slipped(word, "", "mark left out", rng, language)[0] for _ in range(50)}
    assert typed in actual
    assert word not in actual
    assert "mark left out" in slipping.kinds_of(language)
    assert slipping.kinds_of("en") == slipping.KINDS


def test_a_letter_without_a_key_has_no_neighbours():
    rng = random.Random(1)
    actual = {slipping.slipped("así", "", "neighbouring key", rng, "es")[0] for _ in range(100)}
    assert all(typed.endswith("í") and len(typed) == 3 for typed in actual)
    assert "así" not in actual


def test_pairs_are_distinct_slips_inside_single_words():
    words = ["morning", "tomorrow", "evening"] * 40
    pairs = slipping.slip_pairs(words, random.Random(1), "en", 50)
    assert len(pairs) == len(set(pairs)) == 50
    assert all(typed != meant and " " not in typed for typed, meant in pairs)
    assert {meant for _, meant in pairs} == set(words)


def test_held_out_clients_are_those_of_prepare():
    held_out = {name for name in map(str, range(1_000)) if halves.is_held_out(name)}
    assert 60 < len(held_out) < 140
    own = {"seed": 1, "validation_fraction": 0.1, "held_out_fraction": 0.1}
    assert all(split.population_of(name, **own) == "held_out" for name in held_out)
