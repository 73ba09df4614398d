"""Counts of an event log, one vector per person, and the figures that they add up to.

    click-through rate        accepted suggestions / suggestions shown
    accepted a strip          accepted suggestions / strips with a suggestion
    prediction impression recall
                              strips of next words that held the word typed / strips of next words
    zero-state recall         the same before the first word of a message
    taken back                accepted suggestions that were deleted at once / accepted ones
    accepted at place 1, 2, 3 shares of accepted suggestions

The first and the third are Hard et al.'s (2018, section 6, https://arxiv.org/abs/1811.03604), who
report a click-through rate over "proposed prediction candidates" and a recall over the times that
candidates were shown. `evaluation/metrics/impressions.py` counts the same from text that was typed.

A person is a vector of counts. Sums of vectors are all that a server needs, so they can be summed
by clients, and privately: `federated/algorithms/private_counts.py`.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from tff_keyboard.evaluation.events.event_log import Strip
from tff_keyboard.evaluation.statistics.jackknife import Interval, ratio_interval

PLACES = 3
LATENCY_MS = (1, 2, 5, 10, 20, 50, 100)  # upper ends; a last bucket has the rest

_FACTS = (
    "strips", "suggestions", "accepted", "deleted", "next_word_strips", "next_word_matches",
    "zero_state_strips", "zero_state_matches", *(f"accepted_at_{p}" for p in range(1, PLACES + 1)),
)  # fmt: skip
_LATENCIES = (*(f"latency_to_{ms}_ms" for ms in LATENCY_MS), "latency_above")
COUNTS: tuple[str, ...] = (*_FACTS, *_LATENCIES)

# Figure -> what is divided by what.
FIGURES: dict[str, tuple[str, str]] = {
    "click_through_rate": ("accepted", "suggestions"),
    "accepted_a_strip": ("accepted", "strips"),
    "prediction_impression_recall": ("next_word_matches", "next_word_strips"),
    "zero_state_recall": ("zero_state_matches", "zero_state_strips"),
    "taken_back": ("deleted", "accepted"),
    **{f"accepted_at_{p}": (f"accepted_at_{p}", "accepted") for p in range(1, PLACES + 1)},
}


def count(strips: Iterable[Strip]) -> np.ndarray:
    """[len(COUNTS)] float64 of one person's log. Strips without a suggestion count for nothing."""
    found = dict.fromkeys(COUNTS, 0)
    for strip in strips:
        if not strip.shown:
            continue
        found["strips"] += 1
        found["suggestions"] += strip.shown
        found[_LATENCIES[int(np.searchsorted(LATENCY_MS, strip.latency_us / 1000))]] += 1
        if strip.rank is not None:
            found["accepted"] += 1
            found["deleted"] += strip.deleted
            if strip.rank < PLACES:
                found[f"accepted_at_{strip.rank + 1}"] += 1
        if strip.prefix == 0:
            matched = strip.match is not None
            found["next_word_strips"] += 1
            found["next_word_matches"] += matched
            if strip.place == 0:
                found["zero_state_strips"] += 1
                found["zero_state_matches"] += matched
    return np.array([found[name] for name in COUNTS], np.float64)


def figures(counts: np.ndarray) -> dict[str, Interval]:
    """Every name of `FIGURES`, with its 95 % jackknife interval, of [people, len(COUNTS)]."""
    column = {name: counts[:, place] for place, name in enumerate(COUNTS)}
    return {
        name: ratio_interval(column[above], column[below])
        for name, (above, below) in FIGURES.items()
    }


def figures_of_sums(sums: np.ndarray) -> dict[str, float]:
    """Every name of `FIGURES` from sums over people, noisy ones too; nan where nothing is below."""
    total: Mapping[str, float] = dict(zip(COUNTS, map(float, sums), strict=True))
    return {
        name: total[above] / total[below] if total[below] > 0 else math.nan
        for name, (above, below) in FIGURES.items()
    }


def latency_quantile(sums: np.ndarray, share: float) -> float:
    """End of the bucket that holds the quantile `share`, in ms; inf for the last, nan if empty."""
    buckets = np.maximum(np.asarray(sums, np.float64)[len(_FACTS) :], 0.0)
    if not buckets.sum():
        return math.nan
    place = int(np.searchsorted(np.cumsum(buckets), share * buckets.sum()))
    return float((*LATENCY_MS, math.inf)[min(place, len(LATENCY_MS))])
