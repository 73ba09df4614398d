"""Simulates the event log of a user who types a text with the suggestions of a model.

The simulated user of `evaluation/metrics/keystrokes.py` looks at every strip, accepts the word as
soon as it is there, types on otherwise, and sends the message after its last word. The impression
recall of a replay therefore equals that of `evaluate` on the same text; in live logs, users do not
always look. A hybrid learns each message after it is sent; its cache is empty before and after.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence

from tff_keyboard.evaluation.metrics.metric_table import STRIP
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard_app.events.event_log import StripRecord


def replay(
    predictor: Predictor,
    messages: Sequence[Sequence[str]],
    *,
    model: str,
    hour: str,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[StripRecord]:
    """Yields the strips of one user's messages of normalised words.

    The word cache of a hybrid starts empty: what it had learned before is forgotten.

    Args:
      predictor: The predictor that makes the strips.
      messages: The words of each message, in order.
      model: A `model_digest`.
      hour: The hour of all records, as in `StripRecord`.
      clock: A clock in seconds, for the latency.
    """
    hybrid = predictor if isinstance(predictor, HybridPredictor) else None
    if hybrid:
        hybrid.cache.forget_all()
    for number, message in enumerate(messages):
        for position, word in enumerate([*message, None]):
            for prefix in range(len(word) if word else 1):
                start = clock()
                typed = word[:prefix] if word else ""
                shown = [s for s, _ in predictor.suggest(message[:position], typed, STRIP)]
                latency = max(0, round(1e6 * (clock() - start)))
                match = shown.index(word) if word in shown else None
                yield StripRecord(
                    model=model,
                    hour=hour,
                    message=number,
                    place=position,
                    prefix=prefix,
                    shown=len(shown),
                    match=match,
                    outcome="left" if word is None else "typed" if match is None else "accepted",
                    rank=match,
                    deleted=False,
                    latency_us=latency,
                )
                if match is not None:
                    break
        if hybrid:
            hybrid.learn(message)
    if hybrid:
        hybrid.cache.forget_all()


def model_digest(content: bytes) -> str:
    """Returns the name of a model in a log: the first 12 digits of its SHA-256."""
    return hashlib.sha256(content).hexdigest()[:12]
