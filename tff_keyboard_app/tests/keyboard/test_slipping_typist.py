"""A person who slips, on a shipped model: what is mended at the start is mended at the end."""

import collections
import pathlib

import numpy as np
import pytest

from tff_keyboard.data.sources import synthetic
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import TypingSession
from tff_keyboard_app.keyboard.user_history import UserHistory
from tff_keyboard_app.tests.support import slipping_typist
from tflite_export.runtime.hybrid_keyboard import open_keyboard

MIN_KEPT = 0.95  # of the slips that are corrected at the start
MAX_CHANGED = 0.005  # of the right words


@pytest.fixture(scope="module")
def keyboard():
    return AppKeyboard(open_keyboard(pathlib.Path("models/messages/keyboard.tflite")))


@pytest.fixture(scope="module")
def messages(keyboard):
    """Of the synthetic typist who writes most."""
    texts = collections.defaultdict(list)
    for message in synthetic.generate_messages(3, 900, seed=1):
        texts[message.user].append(keyboard.predictor.network.words_of(message.text))
    return [message for message in max(texts.values(), key=len) if message]


@pytest.mark.parametrize("mends", [True, False], ids=["corrected", "sent as typed"])
@pytest.mark.parametrize("habitual", [False, True], ids=["any slip", "habits"])
@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_corrections_last(keyboard, messages, count, habitual, mends):
    cache = keyboard.predictor.cache
    cache.forget_all()
    chosen = messages[:count]
    assert len(chosen) == count
    typed = slipping_typist.type_messages(
        keyboard=keyboard,
        owner=UserHistory([keyboard.predictor], cache),
        session=TypingSession(),
        messages=chosen,
        rng=np.random.default_rng(1),
        habitual=habitual,
        mends=mends,
    )

    def mended():
        actual = [
            slipping_typist.correction(keyboard, text, word) for text, word, _, _ in typed.slips
        ]
        return np.array(
            [
                word is not None and slipping_typist.same(word, meant)
                for word, (_, _, meant, _) in zip(actual, typed.slips, strict=True)
            ]
        )

    at_the_end = mended()
    cache.forget_all()
    at_the_start = mended()
    print(  # with -s: what docs/phone/keyboard.md says
        f"mends {mends}, habitual {habitual}: {at_the_start.sum()} of {len(typed.slips)} slips "
        f"corrected at the start, {(at_the_end & at_the_start).sum()} of these at the end; "
        f"{len(typed.changed)} of {typed.right:,} right words changed"
    )
    assert at_the_start.sum() >= 0.25 * len(typed.slips)
    lost = (at_the_start & ~at_the_end).sum()
    assert lost <= max(1, (1.0 - MIN_KEPT) * at_the_start.sum())
    assert len(typed.changed) <= MAX_CHANGED * typed.right
    if mends:
        assert sum(was for *_, was in typed.slips) >= at_the_start.sum()


def test_slips_are_one_edit_away():
    rng = np.random.default_rng(0)
    kinds = collections.Counter()
    for _ in range(200):
        typed = slipping_typist.slipped("tomorrow", rng)
        kinds[len(typed) - len("tomorrow")] += 1
        if len(typed) == 8 and sorted(typed) != sorted("tomorrow"):
            [(was, made)] = [(a, b) for a, b in zip("tomorrow", typed, strict=True) if a != b]
            assert made in slipping_typist.beside(was)
    assert min(kinds[-1], kinds[0], kinds[1]) > 30
    assert set(slipping_typist.beside("s")) == set("adwezx")
    assert slipping_typist.slipped("don't", rng) == "don't"
