"""Slices of a text, in which a model may be better or worse than in total.

    place        of the word in its message; the first word has no context
    length       of the message, in words
    frequency    of the word among the train users' words
    confidence   probability of the first suggestion: the bins of a reliability curve

A slice is counted like the whole text (`predictor_evaluation.py`), so every metric can be computed
for it, with its interval over clients. Heavy and light users are groups of clients, not slices of
their text: see `clients.py`.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV
from tff_keyboard.evaluation.counts.positions import Positions

# The sums that are counted for slices. The others in `HOST_SUMS` are only for the whole text.
SLICE_SUMS = (
    "tokens", "eos_tokens", "oov_tokens", "nll", "nll_eos", "nll_oov", "hits_at_1", "hits_at_3",
    "characters", "oov_characters", "typed_free", "impressions", "impression_matches",
    "oov_hits_at_1", "oov_hits_at_3", "confidence",
)  # fmt: skip

CONFIDENCE_BINS = 15  # of equal width, as in Guo et al. 2017


@dataclasses.dataclass(frozen=True)
class Family:
    """One way to divide a text into slices, such as by the length of a word.

    Attributes:
      title: Head of the slices in a table.
      labels: Name of each slice.
      index: Returns the slice of each position, [n] int; -1 if it is in none.
    """

    title: str
    labels: tuple[str, ...]
    # Positions -> [n] int, the slice of each position; -1 if it is in none
    index: Callable[[Positions], np.ndarray]


def _bands(values: np.ndarray, starts: tuple[int, ...]) -> np.ndarray:
    """Returns the band of each value, where bands begin at `starts`; -1 below the first."""
    return np.searchsorted(starts, values, side="right") - 1


def _frequency(positions: Positions) -> np.ndarray:
    rank = positions.reference - NUM_SPECIAL
    frequency_bands = _bands(rank, (0, 100, 1000, 3000))
    return np.where(positions.is_eos, -1, np.where(positions.reference == OOV, 4, frequency_bands))


FAMILIES = {
    "place": Family(
        "place in the message",
        ("first word", "2nd to 5th", "6th to 10th", "11th to 20th", "21st and later"),
        lambda positions: _bands(positions.index_in_message, (0, 1, 5, 10, 20)),
    ),
    "length": Family(
        "length of the message",
        ("1 or 2 words", "3 to 5", "6 to 10", "11 to 20", "21 and more"),
        lambda positions: _bands(positions.message_words, (1, 3, 6, 11, 21)),
    ),
    "frequency": Family(
        "frequency of the word",
        ("100 most frequent", "to rank 1,000", "to rank 3,000", "rarer", "out of vocabulary"),
        _frequency,
    ),
    "confidence": Family(
        "probability of the first suggestion",
        tuple(
            f"{i / CONFIDENCE_BINS:.2f} to {(i + 1) / CONFIDENCE_BINS:.2f}"
            for i in range(CONFIDENCE_BINS)
        ),
        lambda positions: np.minimum(
            (positions.confidence * CONFIDENCE_BINS).astype(int), CONFIDENCE_BINS - 1
        ),
    ),
}
