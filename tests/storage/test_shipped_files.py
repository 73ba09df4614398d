"""Configs and models are found from anywhere, and what lies here counts first."""

import pathlib

import pytest

from tff_keyboard.storage import shipped_files

MODEL = pathlib.Path("models", "messages", "keyboard.tflite")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_ours_are_found_from_anywhere():
    assert shipped_files.found(MODEL) == shipped_files.ROOT / MODEL
    assert shipped_files.found(MODEL).is_file()
    for folder in shipped_files.FOLDERS:
        assert (shipped_files.ROOT / folder).is_dir()


def test_what_lies_here_counts_first():
    MODEL.parent.mkdir(parents=True)
    MODEL.write_bytes(b"mine")
    assert shipped_files.found(MODEL) == MODEL


@pytest.mark.parametrize("name", ["models/none.tflite", "setup.py", "k.tflite", "", "/models"])
def test_any_other_path_stays_as_it_is(name):
    assert shipped_files.found(pathlib.Path(name)) == pathlib.Path(name)
