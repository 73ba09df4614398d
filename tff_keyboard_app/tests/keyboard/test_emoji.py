"""Emoji after words: at most one, in the last place, whole, and off by a switch."""

import pathlib
import re

import pytest

from tff_keyboard_app.keyboard.emoji import FOLDER, EmojiWords, is_emoji
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import SLOTS
from tflite_export.runtime.hybrid_keyboard import open_keyboard

BASE = pathlib.Path("models/base/keyboard.tflite")
SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")


@pytest.fixture(scope="module")
def predictor():
    return open_keyboard(BASE)


@pytest.fixture(scope="module")
def keyboard(predictor):
    return AppKeyboard(predictor)


def shown(keyboard, text):
    """Words of the strip, best first."""
    return list(keyboard.keyboard_strip(text).words)


@pytest.mark.parametrize(
    ("text", "emoji"),
    [
        ("happy birthday ", "🎂"),
        ("Haha ", "😂"),
        ("ok. I love you ", "❤️"),
        ("the ", None),
        ("happy birthday", None),  # the word may go on
        ("happy birthday. ", None),  # a sentence begins
    ],
)
def test_an_emoji_has_the_last_place(keyboard, text, emoji):
    words = shown(keyboard, text)
    assert [word for word in words if is_emoji(word)] == ([] if emoji is None else [emoji])
    assert emoji is None or words.index(emoji) == SLOTS - 1


def test_a_tap_types_the_whole_emoji(keyboard):
    [slot] = [s for s in keyboard.keyboard_strip("I love you ").slots if s and is_emoji(s.word)]
    assert slot.applied_to("I love you ") == "I love you ❤️ "


def test_a_switch_turns_them_off(predictor):
    plain = AppKeyboard(predictor, emoji=False)
    assert not any(map(is_emoji, shown(plain, "happy birthday ")))
    assert len(shown(plain, "happy birthday ")) == SLOTS


def test_a_word_that_is_likelier_stays(keyboard, predictor, monkeypatch):
    monkeypatch.setattr(
        predictor, "suggest", lambda *_: [("and", 0.3), ("the", 0.2), ("for", 0.1)], raising=True
    )
    assert shown(keyboard, "happy birthday ") == ["and", "the", "for"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_have_whole_emoji_and_words_that_can_be_typed(language):
    lines = (FOLDER / f"{language}.tsv").read_text("utf-8").splitlines()
    assert "Unicode-DFS-2016" in "".join(line for line in lines if line.startswith("#"))
    for line in lines:
        if line.startswith("#"):
            continue
        words, emoji = line.split("\t")
        assert is_emoji(emoji)
        assert not SKIN_TONES.search(emoji)
        assert emoji[0] != "\u200d" != emoji[-1]
        assert words == words.lower().strip() or language == "tr"
    assert EmojiWords(language).after(["haha"])[0] == "😂"
    assert EmojiWords("xx").after(["haha"]) is None
    assert EmojiWords(language).after([]) is None
