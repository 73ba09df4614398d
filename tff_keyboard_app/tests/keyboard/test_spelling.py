"""Corrections of misspelt words, with the shipped model, and files of pairs."""

import json
import pathlib

import pytest

from tff_keyboard.command_line import cli
from tff_keyboard.storage.errors import DataError
from tff_keyboard_app.commands import spelling as spelling_task
from tff_keyboard_app.keyboard import spelling
from tff_keyboard_app.keyboard.misspellings import packaged_misspellings
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import TypingSession
from tflite_export.runtime.hybrid_keyboard import open_keyboard

BASE = pathlib.Path(__file__).parents[3] / "models" / "base" / "keyboard.tflite"
COMMON = {
    "recieve": "receive", "seperate": "separate", "tommorow": "tomorrow", "untill": "until",
    "definately": "definitely", "goverment": "government", "begining": "beginning",
    "abberation": "aberration", "occassion": "occasion", "arguement": "argument",
}  # fmt: skip


@pytest.fixture(scope="module")
def keyboard():
    return AppKeyboard(open_keyboard(BASE))


def test_common_misspellings_are_corrected(keyboard):
    counts = spelling.count(keyboard, [spelling.Pair(*pair) for pair in COMMON.items()], "it is")
    assert counts.pairs == len(COMMON)
    assert counts.corrected >= 8
    assert counts.miscorrected == 0
    assert counts.on_strip == len(COMMON)


@pytest.mark.parametrize("word", ["gonna", "haha", "zbigniew", "kardashian", "latter", "selfie"])
def test_slang_names_and_words_stay(keyboard, word):
    counts = spelling.count(keyboard, [spelling.Pair(word, word)])
    assert (counts.right, counts.right_changed) == (1, 0)


@pytest.mark.parametrize(
    ("text", "offered"), [("i knw", "know"), ("we are meetin", "meeting"), ("i jus", "just")]
)
def test_short_forms_are_left_and_the_whole_word_is_offered(keyboard, text, offered):
    strip = keyboard.keyboard_strip(text)
    assert strip.correction is None
    assert offered in {slot.word for slot in strip.slots if slot is not None}


@pytest.mark.parametrize("emoji", ["😀", "👍🏽", "❤️", "👩‍👩‍👧", "🇩🇪"])
def test_an_emoji_after_a_misspelt_word_corrects_it(keyboard, emoji):
    session = TypingSession()
    session.type(f"did you recieve{emoji}", keyboard)
    assert session.text == f"did you receive{emoji}"


@pytest.mark.parametrize(("text", "meant"), [("i wil", "will"), ("i tihnk", "think")])
def test_a_letter_left_out_of_a_double_is_no_short_form(keyboard, text, meant):
    correction = keyboard.keyboard_strip(text).correction
    assert correction is not None
    assert correction.word == meant


@pytest.mark.parametrize("typed", ["becau", "definatel", "recei", "belie"])
def test_misspellings_are_not_offered(keyboard, typed):
    shown = {slot.word for slot in keyboard.keyboard_strip(typed).slots if slot is not None}
    assert not shown & packaged_misspellings("en")


def test_a_pair_has_a_tab(tmp_path):
    path = tmp_path / "pairs.tsv"
    for text, line in (("teh\tthe\nsecret words\n", 2), ("\n\na b\tc\n", 3), ("x\t\n", 1)):
        path.write_text(text)
        with pytest.raises(DataError, match=rf"pairs\.tsv, line {line}: ") as caught:
            spelling.read_pairs(path)
        assert "secret" not in str(caught.value)
    path.write_text("\n")
    with pytest.raises(DataError, match="no pairs"):
        spelling.read_pairs(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        spelling.read_pairs(path)
    with pytest.raises(DataError, match="cannot be read"):
        spelling.read_pairs(tmp_path / "none.tsv")


def test_the_task_prints_counts(tmp_path, capsys):
    path = tmp_path / "pairs.tsv"
    path.write_text("recieve\treceive\nhello\thello\n")
    words = [str(BASE), f"--pairs={path}", "--context=you will"]
    assert cli.launch(spelling_task, words) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["misspelled", "1"], ["corrected", "1"]]
    assert cli.launch(spelling_task, [*words, "--json"]) == cli.OK
    actual = json.loads(capsys.readouterr().out)
    assert (actual["corrected"], actual["right"], actual["right_changed"]) == (1, 1, 0)
    assert cli.launch(spelling_task, [str(BASE), "--pairs=none.tsv"]) != cli.OK
