"""The strip with manners, of a small model whose words are known."""

import dataclasses
import pathlib

import numpy as np
import pytest

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.word_frequencies import word_frequencies
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.hybrid_keyboard import open_keyboard
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manners")
    run = export_fakes.save_run(folder / "run")
    return KeyboardPredictor(export(run, folder / "k.tflite", ExportOptions()).paths.model)


@pytest.fixture(scope="module")
def keyboard(predictor):
    return AppKeyboard(predictor)


def shown(strip):
    """Words from the best on."""
    left, best, right = strip.slots
    return [slot.word for slot in (best, left, right) if slot]


def test_a_sentence_starts_afresh_and_with_a_capital(predictor, keyboard):
    first = [word for word, _ in predictor.suggest([], "", 3)]
    capitals = [word[:1].upper() + word[1:] for word in first]
    for text in ("", "  ", "See you. ", "Really? ", "ok\n"):
        assert shown(keyboard.keyboard_strip(text)) == capitals
    assert [word for word, _ in predictor.suggest(["see", "you"], "", 3)] != first
    # What is typed in small letters stays small.
    assert all(word.islower() for word in shown(keyboard.keyboard_strip("See you. th")))


def test_inside_a_sentence_nothing_changes_but_i(predictor, keyboard):
    words = [word for word, _ in predictor.suggest(["are"], "", 3)]
    assert [word.lower() for word in shown(keyboard.keyboard_strip("are "))] == words
    assert shown(keyboard.keyboard_strip("see i"))[0] == "I"


@pytest.mark.parametrize(
    ("text", "after_space"),
    [
        ("see dont", "see don't "),
        ("i", "I "),
        ("dont", "don't "),
        ("Dont", "Don't "),
        ("DONT", "DON'T "),
        ("SEE DONT", "SEE DON'T "),
        ("see DONT", None),  # an acronym
        ("DonT", None),  # has capitals of its own
        ("see zzzzz", None),
        ("see you", None),
        ("I", None),
        ("", None),
        ("i ", None),
    ],
)
def test_what_a_space_corrects(keyboard, text, after_space):
    strip = keyboard.keyboard_strip(text)
    corrected = strip.correction and strip.correction.applied_to(text)
    assert corrected == after_space
    if strip.correction:
        assert strip.correction.word in shown(strip)  # seen before it happens


def test_nothing_is_corrected_inside_a_word(keyboard):
    assert keyboard.keyboard_strip("dont", after="ed").correction is None
    assert keyboard.keyboard_strip("dont", after=" ok").correction is not None


@pytest.fixture
def sure_of_tomorrow(predictor, monkeypatch):
    row = np.full(len(predictor.vocabulary), 1e-4, np.float32)
    row[predictor.vocabulary.words.index("tomorrow")] = 0.5
    monkeypatch.setattr(predictor, "next_word", lambda context: row)


@pytest.mark.parametrize(
    ("text", "after_space"),
    [
        ("see tomorow", "see tomorrow "),
        ("See Tomorow", "See Tomorrow "),
        ("see tOmorow", None),  # a capital inside is meant
        ("see TOMOROW", None),
        ("see tomorow ", None),
        ("see zomorow", "see tomorrow "),  # two slips
        ("see zomorov", None),
    ],
)
def test_a_space_corrects_a_slip(keyboard, sure_of_tomorrow, text, after_space):
    strip = keyboard.keyboard_strip(text)
    assert (strip.correction and strip.correction.applied_to(text)) == after_space
    if strip.correction:
        assert strip.correction.word in shown(strip)
        assert strip.correction.probability > 0.9


def test_words_that_go_on_from_what_is_typed_stand_before_a_slip(keyboard, sure_of_tomorrow):
    # "la" goes on as "later".
    assert keyboard.keyboard_strip("see la").correction is None
    words = shown(keyboard.keyboard_strip("see tomorro"))
    assert words[0] == "tomorrow"
    assert words.count("tomorrow") == 1


def test_a_blocked_word_is_no_correction(predictor, keyboard, sure_of_tomorrow):
    assert keyboard.keyboard_strip("see tomorow").correction is not None
    blocking = AppKeyboard(predictor, "en", ["tomorrow"])
    assert blocking.keyboard_strip("see tomorow").correction is None
    assert "tomorrow" not in shown(blocking.keyboard_strip("see tomorow"))


def test_no_language_no_correction(predictor, sure_of_tomorrow):
    assert AppKeyboard(predictor, "none").keyboard_strip("see tomorow").correction is None


def test_a_language_without_lists_leaves_words_alone(predictor):
    keyboard = AppKeyboard(predictor, "none")
    assert keyboard.keyboard_strip("see dont").correction is None
    assert "I" not in shown(keyboard.keyboard_strip("see i"))


def test_blocked_words_are_not_offered_but_counted_and_typed(predictor):
    best = predictor.suggest(["are"], "", 4)
    keyboard = AppKeyboard(predictor, "none", [best[0][0], best[2][0]])
    words = shown(keyboard.keyboard_strip("are "))
    assert words[:2] == [best[1][0], best[3][0]]
    assert len(words) == 3
    assert keyboard.withheld == 2
    keyboard.keyboard_strip(f"are {best[0][0]} ")  # may be typed
    fewer = AppKeyboard(predictor, "none", [f"{word}*" for word in "abcdefghijklmnop"])
    assert all(
        not word[0].isalpha() or word[0] > "p" for word in shown(fewer.keyboard_strip("are "))
    )


def test_a_misspelling_gives_its_place_to_the_word_it_stands_for(predictor):
    keyboard = AppKeyboard(predictor, "none")
    ranked = [word for word, _ in predictor.suggest(["see"], "la", 3)]
    rare, common = ranked[0], ranked[1]
    keyboard._misspellings.meant_by = {rare: common}.get
    assert shown(keyboard.keyboard_strip("see la")) == ranked[1:]
    # Alone, it is offered.
    keyboard._misspellings.meant_by = {ranked[0]: "elsewhere"}.get
    assert shown(keyboard.keyboard_strip("see la")) == ranked


def test_forms_of_the_export_are_shown(predictor, monkeypatch):
    forms = dataclasses.replace(predictor.manifest, truecase=["LATER"])
    monkeypatch.setattr(predictor, "manifest", forms)
    assert "LATER" in shown(AppKeyboard(predictor).keyboard_strip("see you lat"))


def test_a_model_that_expects_no_word_is_refused_in_one_line(predictor, monkeypatch):
    nothing = np.zeros(len(predictor.vocabulary), np.float32)
    monkeypatch.setattr(predictor, "next_word", lambda context: nothing)
    with pytest.raises(ExportError, match=r"k\.tflite: every word has probability 0"):
        AppKeyboard(predictor)


def test_frequencies_are_the_models_own_and_repeatable(predictor):
    frequencies = word_frequencies(predictor)
    assert frequencies == word_frequencies(predictor)
    assert set(frequencies) == set(predictor.vocabulary.words[NUM_SPECIAL:])
    assert sum(frequencies.values()) == pytest.approx(1.0)
    # Close to the mean along other texts of the model.
    random = np.random.default_rng(5)
    words, total = predictor.vocabulary.words, 0.0
    for _ in range(40):
        context: list[str] = []
        for _ in range(12):
            row = predictor.next_word(context).astype(np.float64)
            row[:NUM_SPECIAL] = 0.0
            row /= row.sum()
            total = total + row
            context.append(words[random.choice(len(words), p=row)])
    expected = total[NUM_SPECIAL:] / total.sum()
    actual = np.array([frequencies[word] for word in words[NUM_SPECIAL:]])
    assert np.abs(actual - expected).sum() < 0.5  # total variation below 0.25


def test_a_word_is_not_corrected_to_the_one_before_it():
    base = AppKeyboard(open_keyboard(pathlib.Path("models/base/keyboard.tflite")))
    corrected = base.keyboard_strip("see thr").correction
    assert corrected is not None
    assert corrected.word == "the"
    assert base.keyboard_strip("the thr").correction is None
