"""How far the trainings of `attention_sweeps.py` went: rounds, words, whether the curve is flat.

That a training ended says only that validation had not improved for a while. Whether its curve had
flattened is what the last quarter of its rounds gained, as a study has it (`study/curve.py`). One
whose perplexity is no number any more has diverged: it neither ended nor is flat.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.study.curve import Curve, gain_of_last_quarter

FLAT_WITHIN = 0.02  # of the best perplexity, as in the studies of the rules


def progress_of(patience: int, trainings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of one setting, JSON values; a list has a value for each training.

    Args:
      patience: Rounds without a better validation perplexity after which a training ends.
      trainings: One a seed, as their files have them.

    Returns:
      `rounds_trained`, `tokens` (words, None where not known), `last_quarter_gained` (a share, None
      where it diverged or is too short to tell), `diverged`, and over all `flat` and `at_its_end`.
    """
    gains = [_gain(each["curve"]) for each in trainings]
    return {
        "rounds_trained": [len(each["curve"]) for each in trainings],
        "tokens": [each.get("tokens") for each in trainings],
        "last_quarter_gained": [None if math.isnan(gain) else gain for gain in gains],
        "diverged": [_has_diverged(each["curve"]) for each in trainings],
        "flat": all(gain <= FLAT_WITHIN for gain in gains),  # nan: False
        "at_its_end": all(_has_ended(each, patience) for each in trainings),
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
    if _has_diverged(values):
        return math.nan
    rounds = list(range(1, len(values) + 1))
    return gain_of_last_quarter(Curve(rounds, [math.nan] * len(values), list(values)))


def _has_diverged(values: Sequence[float]) -> bool:
    return not all(map(math.isfinite, values))


def _has_ended(training: Mapping[str, Any], patience: int) -> bool:
    idle = len(training["curve"]) - training["best_round"]
    return idle >= patience and not _has_diverged(training["curve"])
