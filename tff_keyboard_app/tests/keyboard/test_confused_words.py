"""Right words in the wrong place, and contractions without their apostrophe."""

import pathlib

import numpy as np
import pytest

from tff_keyboard_app.keyboard.confused_words import ConfusedWords, packaged_lines
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import TypingSession
from tflite_export.runtime.hybrid_keyboard import open_keyboard

BASE = pathlib.Path(__file__).parents[3] / "models" / "base" / "keyboard.tflite"
WORDS = ["lets", "let's", "go", "then", "than", "me", "of", "have"]
FREQUENCY = np.array([0.25, 0.25, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])


class Model:
    """After "let's" comes "go", and never after "lets"; after "than" comes "me"."""

    def next_word(self, context):
        likely = {"let's": {"go": 1.0}, "lets": {"lets": 1.0}, "than": {"me": 1.0}}
        chances = likely.get(context[-1] if context else "")
        if chances is None:
            return FREQUENCY
        return np.array([chances.get(word, 0.0) for word in WORDS])


def words_of_model(language="en", words=WORDS, slips=None):
    ids = {word: i for i, word in enumerate(WORDS)}
    return ConfusedWords(
        Model(),
        language,
        words.__contains__,
        lambda word, next_word: float(next_word[ids[word]]),
        lambda typed: (slips or {}).get(typed, {}),
    )


@pytest.fixture(scope="module")
def keyboard():
    return AppKeyboard(open_keyboard(BASE))


def made_of(keyboard, text):
    """The text that a space leaves, word by word, as people type it."""
    session = TypingSession()
    session.type(f"{text} ", keyboard)
    return session.text


def test_the_next_word_decides():
    confused = words_of_model()
    assert not confused.best([], "lets").is_sure
    assert confused.best([], "lets", "go").is_sure
    assert confused.best([], "lets", "go").probability == 1.0
    assert confused.best([], "lets", "unknown") is None
    assert confused.best([], "go") is None
    assert words_of_model("de").best([], "lets", "go") is None
    assert words_of_model(words=["lets", "go"]).contraction("lets") is None


def test_probability_matches_the_two_products():
    confusion = words_of_model().best(["of"], "then", "me")
    meant, typed = 0.1 * 1.0, 0.1 * 0.1
    assert confusion.meant == "than"
    assert confusion.probability == pytest.approx(meant / (meant + typed))
    assert confusion.chance == 0.1
    assert not confusion.is_sure  # odds of ten
    alone = words_of_model().best(["of"], "then")
    assert (alone.probability, alone.is_sure) == (0.5, False)


def test_at_the_start_the_next_word_has_to_speak_for_the_other_word():
    frequent = np.where(np.array(WORDS) == "then", 1e-4, FREQUENCY)
    chances = {"": frequent, "then": FREQUENCY, "than": FREQUENCY}
    confused = ConfusedWords(
        type("Frequent", (), {"next_word": lambda self, context: chances[(context or [""])[-1]]})(),
        "en",
        WORDS.__contains__,
        lambda word, next_word: float(next_word[WORDS.index(word)]),
    )
    at_start, inside = confused.best([], "then", "me"), confused.best([""], "then", "me")
    assert at_start.probability == inside.probability > 0.99
    assert (at_start.is_sure, inside.is_sure) == (True, True)  # odds of 1,000
    frequent[WORDS.index("then")] = 1e-3  # odds of 100
    assert not confused.best([], "then", "me").is_sure
    assert confused.best([""], "then", "me").is_sure


def test_a_word_that_is_only_meant_is_not_changed():
    assert words_of_model().best([], "of").meant == "have"
    assert words_of_model().best([], "have") is None


def test_a_slip_of_the_finger_needs_the_next_word():
    slips = {"go": {"than": 0.5}}
    assert words_of_model(slips=slips).best([], "go") is None
    assert words_of_model(slips=slips).best([], "go", "then") is None  # never after "than"
    confusion = words_of_model(slips=slips).best([], "go", "me")
    assert (confusion.meant, confusion.is_slip, confusion.is_sure) == ("than", True, False)
    assert confusion.probability == pytest.approx(0.5 / 0.6)


@pytest.mark.parametrize("language", ["en", "de", "es", "nl", "pt", "tr"])
def test_each_line_has_words_for_each_other(language):
    lines = packaged_lines(language)
    assert lines
    for typed, meant in lines:
        members = [*typed, *meant]
        assert len(set(members)) == len(members) > 1
        assert all(word == word.strip().lower() and len(word.split()) <= 2 for word in members)
    assert packaged_lines("none") == ()


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("your going to love it", "you're going to love it "),
        ("Your going home", "You're going home "),
        ("better then me", "better than me "),
        ("there car is red", "their car is red "),
        ("should of gone", "should have gone "),
        ("I no that", "I know that "),
        ("I will see you their", "I will see you there "),
        ("I'm not sure id he comes", "I'm not sure id he comes "),
        ("I'm not sure id like it", "I'm not sure I'd like it "),
        ("your house is nice", "your house is nice "),
        ("if not now then when", "if not now then when "),
        ("no way", "no way "),
        ("than i will go", "than I will go "),  # nothing before it speaks for "then"
        ("Than we go", "Than we go "),
        ("to bad", "too bad "),
        ("@your going", "@your going "),
    ],
)
def test_a_right_word_in_the_wrong_place(keyboard, typed, sent):
    assert made_of(keyboard, typed) == sent


def test_both_words_are_on_the_strip_when_in_doubt(keyboard):
    strip = keyboard.keyboard_strip("your beautiful")
    assert strip.correction is None
    assert "you're beautiful" in {slot.word for slot in strip.slots if slot is not None}
    shown = {slot.word for slot in keyboard.keyboard_strip("I'm not sure id").slots if slot}
    assert {"id", "if"} <= shown  # one slip away, and likelier here than "I'd"


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
    shown = list(strip.words)
    if strip.correction is not None:
        assert strip.correction.word in shown
    strip = keyboard.keyboard_strip("were going")
    slot = strip.correction
    assert (slot.word, slot.replaces) == ("we're going", len("were going"))
    assert slot in strip.slots
    assert slot.applied_to("were going") == "we're going "


def test_a_moved_apostrophe_can_be_taken_back(keyboard):
    session = TypingSession()
    session.type("does'nt ", keyboard)
    assert session.text == "doesn't "
    session.backspace()
    assert session.text == "does'nt "


def test_what_was_taken_back_stays(keyboard):
    session = TypingSession()
    session.type("were going ", keyboard)
    assert session.text == "we're going "
    session.backspace()
    assert session.text == "were going "
    session.type("home ", keyboard)
    assert session.text == "were going home "
    session = TypingSession()
    session.type("lets ", keyboard)
    assert session.text == "let's "
    session.backspace()
    session.type("go ", keyboard)  # the pair would be corrected otherwise
    assert session.text == "lets go "


def test_a_right_word_that_was_put_back_stays(keyboard):
    session = TypingSession()
    session.type("your going ", keyboard)
    assert session.text == "you're going "
    session.backspace()
    assert session.text == "your going "
    session.type("to ", keyboard)
    assert session.text == "your going to "
