import itertools
import math

import pytest

from tff_keyboard_app.keyboard.letter_model import LetterModel


def test_the_formula():
    model = LetterModel(["ab", "a"])
    # Letters and ends: a 2, b 1, $ 2; the total has half a count for letters never seen.
    alone = {"a": 2 / 5.5, "b": 1 / 5.5, "$": 2 / 5.5}
    expected = (
        math.log((2 + 3 * alone["a"]) / (2 + 3))  # ^^a
        + math.log((1 + 3 * alone["b"]) / (2 + 3))  # ^ab
        + math.log((1 + 3 * alone["$"]) / (1 + 3))  # ab$
    )
    assert model.log_probability("ab") == pytest.approx(expected)


def test_chances_of_all_words_are_at_most_one():
    model = LetterModel(["aba", "b", "bab", "aab"])
    total = sum(
        math.exp(model.log_probability("".join(letters)))
        for length in range(9)
        for letters in itertools.product("ab", repeat=length)
    )
    assert 0.8 < total <= 1.0


def test_letters_never_seen_are_possible():
    model = LetterModel(["a"])
    assert -math.inf < model.log_probability("zz") < model.log_probability("aa")
