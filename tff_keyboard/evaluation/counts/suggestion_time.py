"""Measures how long a model takes to make one strip of suggestions."""

import time

import numpy as np

from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.predictor import Predictor

_MESSAGES = 100  # that are typed for it, about
_WORDS = 5  # of a message: two suggestions each


def suggestion_milliseconds(predictor: Predictor, text: TypedText) -> dict[str, float]:
    """Median and 95th percentile of one `suggest`, "p50" and "p95" in milliseconds.

    As a keyboard calls it: word by word, the strip of next words and the one after the first
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
