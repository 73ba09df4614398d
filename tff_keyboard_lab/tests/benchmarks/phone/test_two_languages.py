"""The texts of the benchmark, and its counts on keyboards of which the answers are known."""

import random

import pytest

from tff_keyboard_app.keyboard.typing_session import Slot, placed
from tff_keyboard_lab.benchmarks.phone import two_languages

ENGLISH = ["one two three four five", "six seven eight nine"]
GERMAN = ["eins zwei drei vier", "fünf sechs sieben acht neun"]


class Keyboard:
    """Offers some words, and changes "drei" into "three"."""

    def __init__(self, *words):
        self._words = words

    def keyboard_strip(self, text):
        slots = [Slot(word, 0.1, 0, f"{word} ") for word in self._words]
        changes = text.endswith("drei")
        return placed(slots, Slot("three", 0.9, 4, "three ") if changes else None, 0.0)


@pytest.fixture
def kinds():
    return two_languages.messages_of([ENGLISH, GERMAN], random.Random(1))


def test_texts_have_all_words_of_their_sentences_in_order(kinds):
    assert kinds["language 1"] == [[(0, text.split())] for text in ENGLISH]
    assert kinds["language 2"] == [[(1, text.split())] for text in GERMAN]
    for kind in ("by sentence", "by word"):
        assert len(kinds[kind]) == 2
        for message, english, german in zip(kinds[kind], ENGLISH, GERMAN, strict=True):
            for number, text in enumerate((english, german)):
                pieces = [words for language, words in message if language == number]
                assert [word for words in pieces for word in words] == text.split()
    assert all(len(words) <= 4 for message in kinds["by word"] for _, words in message)
    assert any(len(message) > 2 for message in kinds["by word"])


def test_counts(kinds):
    one, other = Keyboard("Two", "five"), Keyboard("drei")
    keyboards = {"both": [one, one], "right one": [one, other]}
    counts = two_languages.typed(keyboards, kinds["by sentence"], letters=[0, 3])
    words = len(" ".join(ENGLISH + GERMAN).split())
    longer = sum(len(word) > 3 for word in " ".join(ENGLISH + GERMAN).split())
    for name in keyboards:
        assert counts[name].words == words
        assert counts[name].strips == words + longer
        assert counts[name].changed == 1
    assert counts["both"].hits == 1 + 2  # "two" without letters, "five" without and with
    assert counts["right one"].hits == 3 + 2
    assert "both" in two_languages.table({"by sentence": counts})
