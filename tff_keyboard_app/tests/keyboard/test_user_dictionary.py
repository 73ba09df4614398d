"""Words and shortcuts of a personal dictionary on the strip."""

import pathlib

import numpy as np
import pytest

import tff_keyboard as tk
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_app import AppKeyboard, Entry, TypingSession
from tff_keyboard_app.keyboard import user_dictionary
from tff_keyboard_app.keyboard.user_dictionary import UserDictionary
from tflite_export.runtime.hybrid_keyboard import open_keyboard

BASE = pathlib.Path(tk.__file__).parents[1] / "models" / "base" / "keyboard.tflite"
ENTRIES = [
    Entry("on my way", "omw"),
    Entry("Zbigniew"),
    Entry("teh"),
    Entry("Grüße", "", "de"),
    Entry("Monday"),
    Entry("two words"),
]


@pytest.fixture(scope="module")
def predictor():
    return open_keyboard(BASE)


@pytest.fixture(scope="module")
def keyboard(predictor):
    return AppKeyboard(predictor, dictionary=ENTRIES)


@pytest.fixture(scope="module")
def plain(predictor):
    return AppKeyboard(predictor)


def typed(keyboard, text):
    session = TypingSession()
    session.type(text, keyboard)
    return session.text


def test_words_are_completed_with_their_capital(keyboard, plain):
    assert "Zbigniew" in keyboard.keyboard_strip("with Zbi").words
    assert keyboard.keyboard_strip("with zbig").words[0] == "Zbigniew"
    assert "Zbigniew" not in plain.keyboard_strip("with zbig").words


def test_words_stay_and_others_are_corrected_to_them(keyboard, plain):
    assert typed(keyboard, "the teh ") == "the teh "
    assert typed(plain, "it is teh ") == "it is the "
    assert typed(keyboard, "with zbigneiw ") == "with Zbigniew "
    assert typed(keyboard, "I definately ") == typed(plain, "I definately ") == "I definitely "


def test_a_shortcut_is_offered_and_stays(keyboard, plain):
    assert keyboard.keyboard_strip("I am omw").words[0] == "on my way"
    assert keyboard.keyboard_strip("Omw").words[0] == "On my way"
    slot = keyboard.keyboard_strip("I am omw").slots[1]
    assert slot.applied_to("I am omw") == "I am on my way "
    assert typed(keyboard, "omw ") == "omw "
    assert "on my way" not in plain.keyboard_strip("I am omw").words


def test_the_predictor_of_others_is_unchanged(predictor, keyboard, plain):
    for text in ("see you tomo", "hello", "I am goi", ""):
        assert keyboard.keyboard_strip(text).words == plain.keyboard_strip(text).words
    assert predictor.tail.share_of("zbigniew") == open_keyboard(BASE).tail.share_of("zbigniew")


def test_blocked_words_are_offered_if_the_user_lists_them(predictor):
    blocked = AppKeyboard(predictor, blocked=["zbigniew"], dictionary=ENTRIES)
    assert "Zbigniew" in blocked.keyboard_strip("with Zbi").words
    assert blocked.offers("Zbigniew")


def test_entries_of_other_languages_and_of_several_words_are_no_words(predictor):
    dictionary = UserDictionary(ENTRIES, predictor, "en")
    assert set(dictionary.words) == {"zbigniew", "teh", "monday"}
    assert set(dictionary.forms) == {"Zbigniew", "Monday"}
    assert "omw" in dictionary
    assert "grüße" not in dictionary
    assert "grüße" in UserDictionary(ENTRIES, predictor, "de")


def test_shares_of_the_lexicon_against_numpy(predictor):
    dictionary = UserDictionary([Entry("zzq"), Entry("zzr"), Entry("the")], predictor, "en")
    tail = TailLexicon(["aab", "zzq"], np.array([0.5, 0.25]))
    merged = dictionary.with_words(tail)
    share = user_dictionary._SHARE_OF_CORRECTION
    assert merged.words == ("aab", "zzq", "zzr")  # "the" is in the vocabulary
    expected = np.array([0.5 * (1 - 2 * share), 0.25 * (1 - 2 * share), share])
    np.testing.assert_allclose(merged.shares, expected, rtol=1e-6)
    assert UserDictionary([], predictor, "en").with_words(tail) is tail
    assert UserDictionary([], predictor, "en").with_words(None) is None
    assert dictionary.completions("zz", 0.5) == [("zzq", 0.01), ("zzr", 0.01)]
    assert dictionary.completions("", 0.5) == []
