"""From sums per person to metrics: totals, jackknife intervals, paired differences.

A sum is named as in `metric_table.py`; here it is an array over people. A perplexity is exp of its
ratio, and its interval exp of the ratio's; its difference between two models is their quotient.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import (
    FEDERATED_METRICS,
    METRICS,
    OPTIONAL_SUMS,
    Metric,
    Signs,
)
from tff_keyboard.evaluation.statistics.jackknife import (
    Interval,
    difference_interval,
    ratio_interval,
    with_seeds,
)

Sums = Mapping[str, np.ndarray]  # name -> [people]


def combine(sums: Mapping[str, Any], signs: Signs) -> np.ndarray:
    """A signed sum of named sums, in float64; per person where the inputs are.

    Those of `OPTIONAL_SUMS` are zero where they are not there.
    """
    shape = np.shape(next(iter(sums.values())))
    terms = [
        sign * np.asarray(sums[name], np.float64)
        for name, sign in signs.items()
        if name in sums or name not in OPTIONAL_SUMS
    ]
    return np.sum(terms, axis=0) if terms else np.zeros(shape)


def parts(sums: Mapping[str, Any], metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Numerator and denominator of a metric, [people] each."""
    return combine(sums, metric.above), combine(sums, metric.below)


def metric_value(sums: Mapping[str, Any], name: str) -> float:
    """A metric over all people; nan where its denominator is 0.

    Args:
      sums: Sums that the metric needs by name, each a scalar or an array over people.
      name: Name in the metric table.
    """
    metric = METRICS[name]
    names = {*metric.above, *metric.below}
    totals = {key: np.sum(np.asarray(sums[key], np.float64)) for key in names if key in sums}
    above, below = (float(part) for part in parts(totals, metric))
    ratio = above / below if below else math.nan
    return _exp(ratio) if metric.is_perplexity else ratio


def metric_interval(sums: Sums, name: str) -> Interval:
    """A metric over all people, with its 95 % jackknife interval over them.

    A share is never below 0 or above 1, and neither is its interval.

    Args:
      sums: Sums that the metric needs by name, [people] each.
      name: Name in the metric table.
    """
    metric = METRICS[name]
    interval = ratio_interval(*parts(sums, metric))
    if metric.is_perplexity:
        return _exponential(interval)
    if not metric.is_share:
        return interval
    low, high = (float(np.clip(end, 0.0, 1.0)) for end in (interval.low, interval.high))
    return interval._replace(low=low, high=high)


def metric_difference(
    first: Sums, second: Sums, name: str, *, seeds: Sequence[tuple[Sums, Sums]] = ()
) -> Interval:
    """Paired `first - second` on the same people; for a perplexity the factor `first / second`.

    Args:
      first: Sums of a model; for a method with several seeds the sums over them.
      second: Sums of the other model, on the same people.
      name: Name of the metric.
      seeds: Both of each seed, where the interval is to be for other seeds, too.
    """
    metric = METRICS[name]
    interval = difference_interval(*parts(first, metric), *parts(second, metric))
    alone = [difference_interval(*parts(a, metric), *parts(b, metric)).value for a, b in seeds]
    interval = with_seeds(interval, alone)
    return _exponential(interval) if metric.is_perplexity else interval


def federated_metrics(sums: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a federated validation.

    Args:
      sums: Every name of `FEDERATED_SUMS`, each a scalar or an array over clients (added up here).

    Returns:
      Every name of `FEDERATED_METRICS`; nan where a denominator is 0.
    """
    return {name: metric_value(sums, name) for name in FEDERATED_METRICS}


def _exp(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(value))


def _exponential(interval: Interval) -> Interval:
    """exp of an interval; the standard error by the delta method."""
    value, low, high = (_exp(end) for end in interval[:3])
    return interval._replace(
        value=value, low=low, high=high, standard_error=value * interval.standard_error
    )
