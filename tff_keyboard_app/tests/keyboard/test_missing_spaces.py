"""Words typed without the space between them, and digits hit for letters."""

import pathlib

import numpy as np
import pytest

from tff_keyboard_app.keyboard.missing_spaces import MissingSpaces
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tflite_export.runtime.hybrid_keyboard import open_keyboard

BASE = pathlib.Path(__file__).parents[3] / "models" / "base" / "keyboard.tflite"
WORDS = {"i": 0, "want": 1, "a": 2, "lot": 3, "b": 4}


class Model:
    """Every word is as likely as any other."""

    def next_word(self, context):
        return np.full(len(WORDS), 0.2)


@pytest.fixture(scope="module")
def keyboard():
    return AppKeyboard(open_keyboard(BASE))


@pytest.fixture
def spaces():
    return MissingSpaces(Model(), dict.fromkeys(WORDS, 0.2), WORDS, "zxcvbnm")


def test_a_cut_needs_two_words(spaces):
    words, chance = spaces.best([], "alot")
    assert words == "a lot"
    assert chance == pytest.approx(0.002 * 0.2 * 0.2)
    assert spaces.best([], "ibwant")[0] == "i want"
    assert spaces.best([], "ibwant")[1] < chance  # a letter hit for the space is rarer
    assert spaces.best([], "iqwant") is None  # "q" is not above the space bar
    assert spaces.best([], "blot") is None  # no letter but "a" and "i" is a word
    assert spaces.best([], "ia") is None  # too short


def test_a_full_stop_is_a_space_or_ends_a_sentence():
    class Ended(Model):
        """Nothing but the end of a sentence follows "lot"."""

        def next_word(self, context):
            ends = {"lot": 1.0, "want": 0.0}.get(context[-1] if context else "", 0.0)
            # Rows: i, want, the end of a sentence (`EOS`), lot, b.
            return np.array([0.2, 0.2, ends, 0.2, 0.2])

    spaces = MissingSpaces(Ended(), dict.fromkeys(WORDS, 0.2), WORDS, "zxcvbnm")
    assert spaces.probability_of_space([], ("want", "lot")) == 1.0
    ended = spaces.probability_of_space([], ("lot", "want"))
    assert ended == pytest.approx(0.001 * 0.2 / (0.001 * 0.2 + 0.05 * 0.2))


def test_a_cut_may_give_words_beyond_the_vocabulary():
    frequencies = {**dict.fromkeys(WORDS, 0.2), "finland": 0.01}
    spaces = MissingSpaces(Model(), frequencies, WORDS, "zxcvbnm")
    words, chance = spaces.best([], "finlandlot")
    assert words == "finland lot"
    assert chance == pytest.approx(0.002 * 0.01 * 0.2)


def test_a_cut_in_three(spaces):
    words, chance = spaces.best([], "iwantlot")
    assert words == "i want lot"
    # The second space is left out more easily than the first.
    assert chance == pytest.approx(0.002 * 0.2 * 0.2**3)
    assert spaces.best([], "iwantalot") is None  # four words
    assert spaces.best([], "iwantblot") is None  # a letter is hit for the space, too
    assert spaces.best([], "iawant") is None  # too short for three


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("alot", "a lot "),
        ("inthe", "in the "),
        ("itwas", "it was "),
        ("doyou", "do you "),
        ("goodmorning", "good morning "),
        ("Thankyou", "Thank you "),
        ("ibwant", "I want "),
        ("howareyou", "how are you "),
        ("hey howareyou", "hey how are you "),
        ("Seeyousoon", "See you soon "),
        ("i wanttogo", "i want to go "),
        ("infact", "in fact "),
        ("please tell me myname", "please tell me my name "),
        ("the po8nt", "the point "),
        ("nice 2eather", "nice weather "),
    ],
)
def test_what_a_space_makes(keyboard, typed, sent):
    correction = keyboard.keyboard_strip(typed).correction
    assert correction is not None
    assert correction.applied_to(typed) == sent


@pytest.mark.parametrize(
    "typed",
    [
        "into",
        "become",
        "someone",
        "today",
        "nowadays",
        "therefore",
        "shantanu",
        "hostname",
        "gr8t",
        "covid19",
        "the Hotwire",
        "b2b",
        "m8",
        "5p",
    ],
)
def test_words_stay_whole(keyboard, typed):
    assert keyboard.keyboard_strip(typed).correction is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("i want 5p", "to"), ("so 2hat", "what"), ("i want 5he", "the"), ("wha5", "what")],
)
def test_a_digit_for_a_letter_is_offered_in_a_short_word(keyboard, typed, meant):
    strip = keyboard.keyboard_strip(typed)
    assert meant in {slot.word for slot in strip.slots if slot is not None}
    assert strip.correction is None


@pytest.mark.parametrize("typed", ["4th", "mp3", "3d", "5pm", "2day", "b4", "class6", "4ever"])
def test_words_with_a_digit_stay(keyboard, typed):
    assert keyboard.keyboard_strip(f"the {typed}").correction is None


def test_joined_words_are_not_completed(keyboard):
    for typed in ("alo", "thanky", "eachot"):
        shown = {slot.word for slot in keyboard.keyboard_strip(typed).slots if slot is not None}
        assert not shown & {"alot", "thankyou", "eachother"}


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("on monday'", "Monday's"),
        ("in lond", "London's"),
        ("in londond", "Londonderry"),
        ("in reykj", "Reykjavik"),
    ],
)
def test_names_of_the_lexicon_have_capitals(keyboard, typed, shown):
    assert shown in {slot.word for slot in keyboard.keyboard_strip(typed).slots if slot is not None}


@pytest.mark.parametrize(
    ("text", "after_space"),
    [
        ("we can to gether", "we can together "),
        ("To gether", "Together "),
        ("go to scho ol", "go to school "),
        ("@to gether", None),
        ("up-to gether", None),
        ("to gETHER", None),
        ("to  gether", None),  # two spaces are meant
        ("some thing", None),  # both are words
        ("to g", None),
    ],
)
def test_a_space_inside_a_word_is_taken_away(keyboard, text, after_space):
    actual = keyboard.keyboard_strip(text).correction
    if after_space is None:
        assert actual is None or actual.replaces <= len(text.split()[-1])
    else:
        assert actual.applied_to(text) == after_space
