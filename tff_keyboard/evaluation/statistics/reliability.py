"""Calibration: whether suggestions with a probability of 30 % are correct 30 % of the time.

The first suggestion on a strip of next words has a probability over the whole vocabulary. Positions
are put into bins of equal width by this probability, as in Guo et al. 2017
(https://arxiv.org/abs/1706.04599). Every strip that is shown counts, including the one after the
last word, which nothing matches.

    claimed_b, right_b = mean probability, share of first suggestions that were the next word
    ECE = sum_b n_b / n * |claimed_b - right_b|
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import HITS_AT_1
from tff_keyboard.evaluation.statistics.sums import Sums, combine


@dataclasses.dataclass(frozen=True)
class Bin:
    """Positions whose first suggestions have similar probabilities."""

    label: str  # range of the probability
    positions: int  # number of positions
    claimed: float  # mean probability of the first suggestion
    right: float  # share of first suggestions that were the next word


def reliability(slices: Mapping[str, Sums]) -> list[Bin]:
    """Returns the curve, one point per non-empty bin, from the "confidence" slices of `Counts`."""
    bins = []
    for label, sums in slices.items():
        num_shown, sum_of_confidence = (
            int(np.sum(sums["impressions"])),
            float(np.sum(sums["confidence"])),
        )
        num_right = float(np.sum(combine(sums, HITS_AT_1)))
        bins.append(Bin(label, num_shown, sum_of_confidence / num_shown, num_right / num_shown))
    return bins


def expected_calibration_error(bins: list[Bin]) -> float:
    """Returns the ECE, in [0, 1]; nan without positions."""
    total = sum(point.positions for point in bins)
    if not total:
        return float("nan")
    return sum(point.positions * abs(point.claimed - point.right) for point in bins) / total
