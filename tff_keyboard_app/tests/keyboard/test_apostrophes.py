"""Contractions without their apostrophe: the words around them decide."""

import pathlib

import numpy as np
import pytest

from tff_keyboard_app.keyboard.apostrophes import SURE_FROM, Apostrophes
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import SLOT_RANKS, TypingSession
from tflite_export.runtime.hybrid_keyboard import open_keyboard

BASE = pathlib.Path(__file__).parents[3] / "models" / "base" / "keyboard.tflite"
IDS = {"lets": 0, "let's": 1, "go": 2}


class Model:
    """After "let's" comes "go", and never after "lets"."""

    def next_word(self, context):
        if context and context[-1] == "let's":
            return np.array([0.0, 0.0, 1.0])
        if context and context[-1] == "lets":
            return np.array([0.5, 0.5, 0.0])
        return np.array([0.5, 0.25, 0.25])


@pytest.fixture(scope="module")
def keyboard():
    return AppKeyboard(open_keyboard(BASE))


def made_of(keyboard, text):
    """The text that a space leaves, word by word, as people type it."""
    session = TypingSession()
    for character in f"{text} ":
        session.press(character, keyboard.keyboard_strip(session.text).correction)
    return session.text


def test_the_next_word_decides():
    apostrophes = Apostrophes(Model(), IDS, "en")
    assert apostrophes.probability([], "lets") < SURE_FROM
    assert apostrophes.probability([], "lets", "go") == 1.0
    assert apostrophes.probability([], "lets", "unknown") == 0.0
    assert apostrophes.probability([], "go") == 0.0
    assert apostrophes.contraction("ill") is None  # the vocabulary has no "i'll"
    assert Apostrophes(Model(), IDS, "de").contraction("lets") is None


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("Ill be there", "I'll be there "),
        ("lets go", "let's go "),
        ("Lets go", "Let's go "),
        ("were going home", "we're going home "),
        ("id like that", "I'd like that "),
        ("its fine", "it's fine "),
        ("shouldve", "should've "),
        ("yall", "y'all "),
        ("i am ill", "I am ill "),
        ("i was ill and tired", "I was ill and tired "),
        ("we were going home", "we were going home "),
        ("the dog lost its ball", "the dog lost its ball "),
        ("well done", "well done "),
        ("go to hell", "go to hell "),
        ("the top-were going", "the top-were going "),
        ("it does'nt", "it doesn't "),
        ("Does'nt", "Doesn't "),
        ("we dosen't", "we doesn't "),
        ("it woildn't", "it wouldn't "),
        ("say 'wont'", "say 'wont' "),
        ("Zora's and o'brien", "Zora's and o'brien "),
        ("the gov't and rock'n'roll", "the gov't and rock'n'roll "),
    ],
)
def test_what_is_sent(keyboard, typed, sent):
    assert made_of(keyboard, typed) == sent


def test_a_word_in_front_is_offered_with_its_apostrophe(keyboard):
    strip = keyboard.keyboard_strip("see were going")
    shown = [slot.word for _, slot in sorted(zip(SLOT_RANKS, strip.slots, strict=True)) if slot]
    if strip.correction is not None:
        assert strip.correction.word in shown
    strip = keyboard.keyboard_strip("were going")
    slot = strip.correction
    assert (slot.word, slot.replaces) == ("we're going", len("were going"))
    assert slot in strip.slots
    assert slot.applied_to("were going") == "we're going "


def test_a_moved_apostrophe_can_be_taken_back(keyboard):
    session = TypingSession()
    for character in "does'nt ":
        session.press(character, keyboard.keyboard_strip(session.text).correction)
    assert session.text == "doesn't "
    session.backspace()
    assert session.text == "does'nt "


def test_what_was_taken_back_stays(keyboard):
    session = TypingSession()

    def type_keys(keys):
        for character in keys:
            session.press(character, keyboard.keyboard_strip(session.text).correction)

    type_keys("were going ")
    assert session.text == "we're going "
    session.backspace()
    assert session.text == "were going "
    type_keys("home ")
    assert session.text == "were going home "
    session = TypingSession()
    type_keys("lets ")
    assert session.text == "let's "
    session.backspace()
    type_keys("go ")  # the pair would be corrected otherwise
    assert session.text == "lets go "
