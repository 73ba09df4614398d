"""One `AppKeyboard` in eight threads: no crash, and the strips of one thread."""

import numpy as np

from tests.support.keyboard.threads import in_threads
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.user_history import UserHistory
from tflite_export.runtime.hybrid_keyboard import open_keyboard

MODEL = "models/base/keyboard.tflite"
TEXTS = [
    *(
        "See you ",
        "see you at the st",
        "I am going to the ",
        "alot",
        "thnk",
        "are yo",
        "happy birthday ",
    ),
    *("", "a", "it was a long day and we ", "howareyou", "See you later. ", "to gether", "dont"),
]


def shown(keyboard, text):
    strip = keyboard.keyboard_strip(text)
    correction = strip.correction and strip.correction.word
    return [slot and slot.word for slot in strip.slots], correction


def test_strips_are_those_of_one_thread():
    keyboard = AppKeyboard(open_keyboard(MODEL))
    alone = {text: shown(keyboard, text) for text in TEXTS}

    def work(number):
        order = np.random.default_rng(number).integers(len(TEXTS), size=4 * len(TEXTS))
        return [(TEXTS[i], shown(keyboard, TEXTS[i])) for i in order]

    for strips in in_threads(work):
        for text, strip in strips:
            assert strip == alone[text], text


def test_two_keyboards_share_words_that_change():
    cache = WordCache()
    keyboards = [AppKeyboard(open_keyboard(MODEL, cache=cache)) for _ in range(2)]
    history = UserHistory([keyboard.predictor for keyboard in keyboards], cache)

    def work(number):
        for turn in range(12):
            if number == 0:
                history.learn(f"see you at the quayside{'abcdefghij'[turn % 10]}")
            elif number == 1:
                history.forget("you see") if turn % 4 else history.forget_all()
            elif number == 2:
                assert history.personal_dictionary() is not None
                keyboards[0].offers("quayside")
            else:
                shown(keyboards[number % 2], TEXTS[(number + turn) % len(TEXTS)])

    in_threads(work)
