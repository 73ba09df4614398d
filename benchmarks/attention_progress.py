"""How far the trainings of `attention_sweeps.py` went: rounds, words, whether the curve is flat.

A training ends when its curve is flat: when the last quarter of its rounds, once there are enough,
lowered the best perplexity on validation people by no more than a percent (`study/curve.py`). One
that ran out of rounds before is still falling; one whose perplexity is no number any more has
diverged.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.study.curve import Curve, gain_of_last_quarter

FLAT_WITHIN = 0.01  # of the best perplexity
FEWEST_ROUNDS = 32  # fewer say little: eight rounds in a row may be unlucky, two often are


def is_flat(curve: Sequence[float], fewest: int = FEWEST_ROUNDS) -> bool:
    """Whether a validation curve, a perplexity a round, has flattened; no sooner than `fewest`.

    >>> is_flat([100 + 50 / n for n in range(1, 33)]), is_flat([2000 / n for n in range(1, 33)])
    (True, False)
    """
    return len(curve) >= fewest and _gain(curve) <= FLAT_WITHIN  # nan: False


def fewest_rounds_of(training: Mapping[str, Any]) -> int:
    """Before which its curve did not count as flat; older versions had the usual ones, unnamed."""
    return int(training.get("fewest_rounds", FEWEST_ROUNDS))


def progress_of(trainings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of one setting, JSON values; a list has a value for each training.

    Args:
      trainings: One a seed, as their files have them.

    Returns:
      `fewest_rounds` (before which none counted as flat), `rounds_trained`, `tokens` (words, None
      where not known), `last_quarter_gained` (a share, None where it diverged or is too short to
      tell), `diverged`, and over all `flat`.
    """
    gains = [_gain(each["curve"]) for each in trainings]
    return {
        "fewest_rounds": [fewest_rounds_of(each) for each in trainings],
        "rounds_trained": [len(each["curve"]) for each in trainings],
        "tokens": [each.get("tokens") for each in trainings],
        "last_quarter_gained": [None if math.isnan(gain) else gain for gain in gains],
        "diverged": [_has_diverged(each["curve"]) for each in trainings],
        "flat": all(is_flat(each["curve"]) for each in trainings),
    }


def word_for(row: Mapping[str, Any]) -> str:
    """What tables call the curves of a row.

    >>> word_for({"diverged": [False], "last_quarter_gained": [0.03], "flat": False})
    'still falling'
    """
    if any(row["diverged"]):
        return "diverged"
    if None in row["last_quarter_gained"]:
        return "too short"
    return "flat" if row["flat"] else "still falling"


def _gain(values: Sequence[float]) -> float:
    if _has_diverged(values) or len(values) < FEWEST_ROUNDS:
        return math.nan
    rounds = list(range(1, len(values) + 1))
    return gain_of_last_quarter(Curve(rounds, [math.nan] * len(values), list(values)))


def _has_diverged(values: Sequence[float]) -> bool:
    return not all(map(math.isfinite, values))
