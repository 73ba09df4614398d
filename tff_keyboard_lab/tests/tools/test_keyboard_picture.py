"""The README says in words what its picture of the keyboard shows."""

import re

import pytest

from tff_keyboard_app.tests.support import keyboard_browser
from tff_keyboard_lab.tools import keyboard_picture


def test_the_readme_says_what_the_model_suggests():
    page = (keyboard_picture.ROOT / "README.md").read_text()
    (text,) = re.findall(r'alt="The keyboard page of([^"]*)"', page)
    message, words = re.search(
        r"The message reads: (.*)\. The three suggestions are (.*)\.", " ".join(text.split())
    ).groups()
    assert message == keyboard_picture.TEXT
    left, middle, right = keyboard_picture.suggestions()
    assert words == f"{left}, {middle} and {right}"


@pytest.mark.slow
@pytest.mark.browser
@keyboard_browser.NEEDS_BROWSER[1]
def test_the_picture_is_made(tmp_path):
    keyboard_picture.save(tmp_path / "keyboard.png")
    data = (tmp_path / "keyboard.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 20_000
