"""Measures the time that a model needs for one strip of suggestions."""

import time

import numpy as np

from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.predictor import Predictor

_MESSAGES = 100  # approximate number of messages that are typed
_WORDS = 5  # words of a message, with two suggestions each


def suggestion_milliseconds(predictor: Predictor, text: TypedText) -> dict[str, float]:
    """Returns the median and 95th percentile of one `suggest`, "p50" and "p95" in milliseconds.

    Calls it like a keyboard: for each word, the strip of next words and the strip after the first
    character.
    """
    seconds: list[float] = []
    messages = [message for person in text.messages for message in person]
    every = max(1, len(messages) // _MESSAGES)
    for message in messages[::every]:
        for place, word in enumerate(message[:_WORDS]):
            for prefix in ("", word[0]):
                start = time.perf_counter()
                predictor.suggest(message[:place], prefix)
                seconds.append(time.perf_counter() - start)
    p50, p95 = np.percentile(seconds, [50, 95])
    return {"p50": 1e3 * float(p50), "p95": 1e3 * float(p95)}
