"""Simulates a user who types a text with the suggestions of a model, and counts the strips.

The simulated user of `evaluation/metrics/keystrokes.py` looks at every strip, accepts the word as
soon as it is there, types on otherwise, and sends the message after its last word. The impression
recall of a replay therefore equals that of `evaluate` on the same text; in live logs, users do not
always look. A hybrid learns each message after it is sent; its cache is empty before and after.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import STRIP
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard_app.events import event_counts
from tff_keyboard_app.events.event_counts import COUNTS, StripOutcome


def replay(
    predictor: Predictor,
    messages: Sequence[Sequence[str]],
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> np.ndarray:
    """Counts the strips of one user's messages: [len(COUNTS)] int64.

    The word cache of a hybrid starts empty: what it had learned before is forgotten.

    Args:
      predictor: The predictor that makes the strips.
      messages: The normalised words of each message, in order.
      clock: A clock in seconds, for the latency.
    """
    counts = np.zeros(len(COUNTS), np.int64)
    hybrid = predictor if isinstance(predictor, HybridPredictor) else None
    if hybrid:
        hybrid.cache.forget_all()
    for message in messages:
        counts += event_counts.count(_strips(predictor, message, clock), message)
        if hybrid:
            hybrid.learn(message)
    if hybrid:
        hybrid.cache.forget_all()
    return counts


def _strips(
    predictor: Predictor, message: Sequence[str], clock: Callable[[], float]
) -> Iterator[StripOutcome]:
    """Yields the strips that a user sees who taps each word as soon as it is suggested."""
    for place, word in enumerate([*message, None]):
        for prefix in range(len(word) if word else 1):
            start = clock()
            typed = word[:prefix] if word else ""
            words = tuple(word for word, _ in predictor.suggest(message[:place], typed, STRIP))
            latency_us = max(0, round(1e6 * (clock() - start)))
            rank = words.index(word) if word in words else None
            yield StripOutcome(
                place=place, prefix=prefix, words=words, rank=rank, latency_us=latency_us
            )
            if rank is not None:
                break
