"""A temperature under which a model's probabilities are as right as they claim.

A temperature T turns probabilities into p^(1/T), normalised again; ranks stay as they are. `fit`
finds the T of the lowest negative log-likelihood, which is convex in 1/T, by Newton's method. How
right they are is said by `statistics/reliability.py`.
"""

from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.evaluation.counts.positions import text_batches
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.predictor import Predictor, Suggestion

_POSITIONS = 4000  # scored for a fit: V x 4 bytes each, 160 MB at V = 10,000
_STEPS = 20
_LEAST, _MOST = 0.1, 10.0  # of 1 / T


class TemperedPredictor:
    """A predictor whose probabilities are raised to 1 / `temperature` and normalised again."""

    def __init__(self, inner: Predictor, temperature: float):
        if not temperature > 0:
            raise ValueError(f"`temperature` must be > 0, got {temperature}.")
        self.vocabulary = inner.vocabulary
        self._inner = inner
        self._temperature = temperature

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """Not offered: a keyboard would have to score the whole vocabulary for it."""
        raise NotImplementedError("A tempered predictor scores texts; it fills no strip.")

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`."""
        scores = self._inner.log_probabilities(ids) / np.float32(self._temperature)
        largest = scores.max(axis=1, keepdims=True)
        return scores - largest - np.log(np.exp(scores - largest).sum(axis=1, keepdims=True))


def fit(predictor: Predictor, text: TypedText, *, max_length: int = 0) -> float:
    """The temperature T in [0.1, 10] under which the text is most likely; > 1: too sure of itself.

    `text` is of people whom neither training nor the final evaluation sees: validation. Where it is
    long, a part of every person's messages is read.
    """
    scores, targets = _some_scores(predictor, text, max_length)
    inverse = 1.0
    low, high = _LEAST, _MOST
    for _ in range(_STEPS):
        slope, curvature = _derivatives(scores, targets, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = inverse - slope / curvature if curvature > 0 else low
        following = step if low < step < high else (low + high) / 2
        if abs(following - inverse) < 1e-6:
            break
        inverse = following
    return float(1 / inverse)


def _derivatives(scores: np.ndarray, targets: np.ndarray, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean loss by 1 / T."""
    slope = curvature = 0.0
    for start in range(0, len(targets), 256):
        rows = scores[start : start + 256].astype(np.float64)
        own = rows[np.arange(len(rows)), targets[start : start + 256]]
        weights = np.exp(inverse * (rows - rows.max(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        rows = np.where(np.isfinite(rows), rows, 0.0)  # of weight 0: PAD, BOS
        mean = (weights * rows).sum(axis=1)
        slope += float((mean - own).sum())
        curvature += float((weights * np.square(rows - mean[:, np.newaxis])).sum())
    return slope / len(targets), curvature / len(targets)


def _some_scores(
    predictor: Predictor, text: TypedText, max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores [n, V] and targets [n] of messages spread over all people."""
    targets_in_all = text.num_words + sum(len(person) for person in text.messages)
    every = max(1, -(-targets_in_all // _POSITIONS))
    some = TypedText(text.name, text.people, tuple(list(p[::every]) for p in text.messages))
    scores, targets = [], []
    for batch in text_batches(some, predictor.vocabulary, max_length=max_length):
        scores.append(predictor.log_probabilities(batch.inputs))
        targets.append(batch.ids[:, 1:][batch.ids[:, 1:] != PAD])
    return np.concatenate(scores), np.concatenate(targets)
