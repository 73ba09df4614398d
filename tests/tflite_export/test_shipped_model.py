"""The model that we ship: whole, small, and it suggests."""

import hashlib
import json
import pathlib

import pytest

from tflite_export.hybrid_keyboard import open_keyboard

FOLDER = pathlib.Path("models/persuasion")


@pytest.fixture(scope="module")
def manifest():
    return json.loads((FOLDER / "keyboard.json").read_text())


def test_files_are_those_of_the_manifest(manifest):
    for name, part in (("tflite", manifest["model"]), ("ngram", manifest["ngram"])):
        content = (FOLDER / f"keyboard.{name}").read_bytes()
        assert len(content) == part["bytes"]
        assert hashlib.sha256(content).hexdigest() == part["sha256"]


def test_is_small_and_passed_its_gate(manifest):
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_440_000
    assert manifest["parity"]["forgiven"] is None


def test_says_what_people_say():
    keyboard = open_keyboard(FOLDER / "keyboard.tflite")
    strip = [word for word, _ in keyboard.suggest(["thank", "you", "for", "your"])]
    assert "donation" in strip or "time" in strip
    assert all(word.startswith("don") for word, _ in keyboard.suggest(["your"], "don"))


def test_the_readme_has_the_sizes_of_the_files():
    text = (FOLDER.parent / "README.md").read_text()
    for path in FOLDER.iterdir():
        assert f"| `{path.name}` | {path.stat().st_size:,} |" in text
