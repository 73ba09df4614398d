"""A run's validation curve: its best value, whether it is flat, and when it passed a target.

A curve is flat if the last quarter of its rounds lowered the best validation perplexity by at most
a given share. A curve with fewer than four validations is never flat.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tff_keyboard.storage import metrics_rows

PERPLEXITY = "evaluation/perplexity"
TOKENS = "tokens"
_FEWEST = 4


class Curve(NamedTuple):
    """Validation perplexity of a run."""

    rounds: list[int]
    tokens: list[float]  # tokens trained on up to each of these rounds
    perplexities: list[float]


def of_rows(rows: Sequence[metrics_rows.Row]) -> Curve:
    """Returns the curve in the metrics of a run."""
    rounds, values = metrics_rows.series(rows, PERPLEXITY)
    totals = metrics_rows.running_total(rows, TOKENS)
    return Curve(rounds, [totals.get(number, math.nan) for number in rounds], values)


def gain_of_last_quarter(curve: Curve) -> float:
    """Returns the share by which the last quarter of the rounds lowered the best perplexity.

    The result is nan if the curve is too short.

    >>> gain_of_last_quarter(Curve([1, 2, 3, 4], [0] * 4, [400, 200, 100, 75]))
    0.25
    """
    if len(curve.rounds) < _FEWEST:
        return math.nan
    begin = 0.75 * curve.rounds[-1]
    before = [v for r, v in zip(curve.rounds, curve.perplexities, strict=True) if r <= begin]
    if not before:
        return math.nan
    return max(0.0, 1 - min(curve.perplexities) / min(before))


def is_flat(curve: Curve, within: float) -> bool:
    """Returns whether the last quarter gained at most `within`."""
    return gain_of_last_quarter(curve) <= within  # nan: False


def rounds_to(curve: Curve, target: float) -> int | None:
    """Returns the first round with a validation perplexity of at most `target`, or None.

    >>> rounds_to(Curve([5, 10], [0, 0], [300.0, 199.0]), 200.0)
    10
    """
    reached = (r for r, v in zip(curve.rounds, curve.perplexities, strict=True) if v <= target)
    return next(reached, None)
