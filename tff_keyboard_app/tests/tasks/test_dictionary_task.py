"""The command `dictionary`: from other keyboards and learned words to a file, and back."""

import pathlib

import pytest

import tff_keyboard as tk
from tff_keyboard.command_line import cli
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage.errors import DataError
from tff_keyboard_app import read_dictionary
from tff_keyboard_app.commands import dictionary
from tff_keyboard_app.keyboard import cache_file

BASE = pathlib.Path(tk.__file__).parents[1] / "models" / "base" / "keyboard.tflite"


def test_files_of_others_and_learned_words_become_one_file(tmp_path, capsys):
    (tmp_path / "gboard.txt").write_text("omw\ton my way\ten-US\n\tKagi\t\n42\n")
    cache = WordCache()
    for _ in range(2):
        cache.observe(["see", "zbigniew"], forms=[None, "Zbigniew"])
    cache.observe(["see", "tomorow"])  # a slip, once
    cache_file.save(cache, tmp_path / "words.cache")
    files = [str(tmp_path / name) for name in ("gboard.txt", "words.cache")]
    out = tmp_path / "mine.txt"
    assert cli.launch(dictionary, [*files, f"--out={out}", f"--model={BASE}"]) == cli.OK
    assert capsys.readouterr().out.splitlines() == [
        f"{files[0]}: 2 entries, 1 more are no words",
        f"{files[1]}: 1 entries",
        f"{out}: 2 words and 1 shortcuts",
    ]
    words = [(entry.shortcut, entry.word) for entry in read_dictionary(out).entries]
    assert words == [("omw", "on my way"), ("", "Kagi"), ("", "Zbigniew")]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["words.cache", "--out=mine.txt"], "is a word cache. Pass --model=FILE.tflite"),
        (["a.txt", "--out=a.txt"], "is one of the files to read"),
        (["nowhere.txt", "--out=mine.txt"], "nowhere.txt"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(tmp_path, monkeypatch, capsys, arguments, problem):
    monkeypatch.chdir(tmp_path)
    cache_file.save(WordCache(), tmp_path / "words.cache")
    (tmp_path / "a.txt").write_text("Kagi\n")
    assert cli.launch(dictionary, arguments) in (cli.USAGE, DataError.exit_code)
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line
    assert not (tmp_path / "mine.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "Kagi\n"
