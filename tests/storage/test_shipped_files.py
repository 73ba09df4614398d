"""Configs and models are found from any directory, and local files take precedence."""

import pathlib

import pytest

from tff_keyboard.storage import shipped_files

MODEL = pathlib.Path("models", "messages", "keyboard.tflite")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_shipped_files_are_found_from_any_directory():
    assert shipped_files.locate(MODEL) == shipped_files.ROOT / MODEL
    assert shipped_files.locate(MODEL).is_file()
    for folder in shipped_files.FOLDERS:
        assert (shipped_files.ROOT / folder).is_dir()


def test_local_files_take_precedence():
    MODEL.parent.mkdir(parents=True)
    MODEL.write_bytes(b"mine")
    assert shipped_files.locate(MODEL) == MODEL


@pytest.mark.parametrize("name", ["models/none.tflite", "setup.py", "k.tflite", "", "/models"])
def test_other_paths_are_unchanged(name):
    assert shipped_files.locate(pathlib.Path(name)) == pathlib.Path(name)
