"""Counts of the strips of a keyboard, one vector for each user, and the figures of their sums.

    click-through rate        accepted suggestions / suggestions shown
    accepted a strip          accepted suggestions / strips with a suggestion
    prediction impression recall
                              strips of next words that held the word typed / strips of next words
    zero-state recall         the same before the first word of a message
    taken back                accepted suggestions that were deleted at once / accepted ones
    accepted at place 1, 2, 3 shares of accepted suggestions

The first and the third are from Hard et al. (2018, section 6, https://arxiv.org/abs/1811.03604),
who report a click-through rate over "proposed prediction candidates" and a recall over the times
that candidates were shown. `evaluation/metrics/metric_table.py` defines the same on typed text.

A user is a vector of counts. A server needs only sums of vectors, so clients can sum them, and sum
them privately: `tff_keyboard_app/events/private_counts.py`.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tff_keyboard.evaluation.statistics.jackknife import Interval, clipped_to_shares, ratio_interval

PLACES = 3
LATENCY_MS = (1, 2, 5, 10, 20, 50, 100)  # upper ends of buckets; the last bucket has no end

_FACTS = (
    "strips", "suggestions", "accepted", "deleted", "next_word_strips", "next_word_matches",
    "zero_state_strips", "zero_state_matches", *(f"accepted_at_{p}" for p in range(1, PLACES + 1)),
)  # fmt: skip
_LATENCIES = (*(f"latency_to_{ms}_ms" for ms in LATENCY_MS), "latency_above")
COUNTS: tuple[str, ...] = (*_FACTS, *_LATENCIES)

# Figure -> (numerator, denominator).
FIGURES: dict[str, tuple[str, str]] = {
    "click_through_rate": ("accepted", "suggestions"),
    "accepted_a_strip": ("accepted", "strips"),
    "prediction_impression_recall": ("next_word_matches", "next_word_strips"),
    "zero_state_recall": ("zero_state_matches", "zero_state_strips"),
    "taken_back": ("deleted", "accepted"),
    **{f"accepted_at_{p}": (f"accepted_at_{p}", "accepted") for p in range(1, PLACES + 1)},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StripOutcome:
    """A strip that was shown, and what became of it.

    It stays in memory until its message is sent or dropped, and only its counts are written.

    Attributes:
      place: Position of the word in its message, 0 for the first.
      prefix: Number of typed characters of the word when the strip was shown.
      words: Suggestions, normalised, best first.
      rank: Place of the accepted suggestion, 0 for the best; None if none was accepted.
      deleted: Whether the accepted word was deleted before anything else was typed.
      latency_us: Time from the key to the strip.
    """

    place: int
    prefix: int
    words: tuple[str, ...]
    rank: int | None = None
    deleted: bool = False
    latency_us: int = 0


def count(strips: Iterable[StripOutcome], message: Sequence[str]) -> np.ndarray:
    """Counts the strips of a message: [len(COUNTS)] int64. Strips without words do not count.

    Args:
      strips: The strips.
      message: Normalised words of the message in the end.
    """
    counts = dict.fromkeys(COUNTS, 0)
    for strip in strips:
        if not strip.words:
            continue
        counts["strips"] += 1
        counts["suggestions"] += len(strip.words)
        counts[_LATENCIES[int(np.searchsorted(LATENCY_MS, strip.latency_us / 1000))]] += 1
        if strip.rank is not None:
            counts["accepted"] += 1
            counts["deleted"] += strip.deleted
            if strip.rank < PLACES:
                counts[f"accepted_at_{strip.rank + 1}"] += 1
        if strip.prefix == 0:
            matched = strip.place < len(message) and message[strip.place] in strip.words
            counts["next_word_strips"] += 1
            counts["next_word_matches"] += matched
            if strip.place == 0:
                counts["zero_state_strips"] += 1
                counts["zero_state_matches"] += matched
    return np.array(list(counts.values()))


def figures(counts: np.ndarray) -> dict[str, Interval]:
    """Returns every figure of `FIGURES` with its 95 % jackknife interval, cut to [0, 1].

    `counts` is [users, len(COUNTS)].
    """
    column = {name: counts[:, index] for index, name in enumerate(COUNTS)}
    return {
        name: clipped_to_shares(ratio_interval(column[above], column[below]))
        for name, (above, below) in FIGURES.items()
    }


def figures_of_sums(sums: np.ndarray) -> dict[str, float]:
    """Returns every figure of `FIGURES` from sums over users.

    A figure is nan if its denominator is not positive; noisy sums can be negative.
    """
    total: Mapping[str, float] = dict(zip(COUNTS, map(float, sums), strict=True))
    return {
        name: total[above] / total[below] if total[below] > 0 else math.nan
        for name, (above, below) in FIGURES.items()
    }


def latency_quantile(sums: np.ndarray, share: float) -> float:
    """Returns the upper end of the bucket with the quantile `share`, in ms.

    The result is inf for the last bucket, and nan if there are no strips.
    """
    buckets = np.maximum(np.asarray(sums, np.float64)[len(_FACTS) :], 0.0)
    if not buckets.sum():
        return math.nan
    bucket = int(np.searchsorted(np.cumsum(buckets), share * buckets.sum()))
    return float((*LATENCY_MS, math.inf)[min(bucket, len(LATENCY_MS))])
