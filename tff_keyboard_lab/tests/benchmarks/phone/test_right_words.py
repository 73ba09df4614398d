"""Right words are counted by the rules of their language."""

import types

from tff_keyboard_app.keyboard.typing_session import Slot
from tff_keyboard_lab.benchmarks.phone import spelling


class TurkishKeyboard:
    """Writes Istanbul with a capital, and takes "kıl" for "kil"."""

    code = "tr"

    def keyboard_strip(self, text):
        made = {"istanbul": "İstanbul", "KIL": "KİL"}.get(text.split()[-1])
        correction = made and Slot(made, 1.0, len(made), f"{made} ")
        return types.SimpleNamespace(correction=correction)


def test_turkish_capitals():
    messages = [["istanbul", "IŞIK", "KIL"]]
    right = {"istanbul", "ışık", "kıl"}
    actual = spelling.changes_of_right(TurkishKeyboard(), messages, right, 10)
    assert actual == {"words": 3, "changed": 1}
