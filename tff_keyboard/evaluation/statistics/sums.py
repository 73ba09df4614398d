"""Computes metrics from sums per client: totals, jackknife intervals, paired differences.

A sum has a name in `metric_table.py`; here it is an array over clients. A perplexity is exp of its
ratio, and its interval is exp of the ratio's interval. The difference of two perplexities is their
quotient.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import (
    FEDERATED_METRICS,
    OPTIONAL_SUMS,
    Metric,
    Signs,
    metric_of,
)
from tff_keyboard.evaluation.statistics.jackknife import (
    Interval,
    clipped_to_shares,
    difference_interval,
    ratio_interval,
    with_seeds,
)

Sums = Mapping[str, np.ndarray]  # name -> [clients]


def combine(sums: Mapping[str, Any], signs: Signs) -> np.ndarray:
    """Returns a signed sum of named sums, in float64; per client if the inputs are per client.

    Missing `OPTIONAL_SUMS` are zero.
    """
    shape = np.shape(next(iter(sums.values())))
    terms = [
        sign * np.asarray(sums[name], np.float64)
        for name, sign in signs.items()
        if name in sums or name not in OPTIONAL_SUMS
    ]
    return np.sum(terms, axis=0) if terms else np.zeros(shape)


def parts(sums: Mapping[str, Any], metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numerator and the denominator of a metric, [clients] each."""
    return combine(sums, metric.above), combine(sums, metric.below)


def metric_value(sums: Mapping[str, Any], metric: str | Metric) -> float:
    """Returns a metric over all clients; nan if its denominator is 0.

    >>> sums = {"hits_at_3": [4, 6], "tokens": [12, 22], "eos_tokens": [2, 2]}
    >>> f"{metric_value(sums, 'recall_at_3_no_eos'):.3f}"
    '0.333'

    Args:
      sums: The sums that the metric needs, by name, each a scalar or an array over clients.
      metric: Name in the metric table, or a metric.
    """
    metric = metric_of(metric)
    names = {*metric.above, *metric.below}
    totals = {key: np.sum(np.asarray(sums[key], np.float64)) for key in names if key in sums}
    numerator, denominator = (float(part) for part in parts(totals, metric))
    ratio = numerator / denominator if denominator else math.nan
    return _exp(ratio) if metric.is_perplexity else ratio


def metric_interval(sums: Sums, metric: str | Metric) -> Interval:
    """Returns a metric over all clients, with its 95 % jackknife interval.

    The interval of a share is clipped to [0, 1].

    >>> sums = {"tokens": np.full(3, 12), "eos_tokens": np.full(3, 2)}
    >>> sums["hits_at_3"] = np.array([4, 5, 6])
    >>> found = metric_interval(sums, "recall_at_3_no_eos")
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
    (0.5, 0.25, 0.75)

    Args:
      sums: The sums that the metric needs, by name, [clients] each.
      metric: Name in the metric table, or a metric.
    """
    metric = metric_of(metric)
    interval = ratio_interval(*parts(sums, metric))
    if metric.is_perplexity:
        return _exponential(interval)
    if not metric.is_share:
        return interval
    return clipped_to_shares(interval)


def metric_difference(
    first: Sums,
    second: Sums,
    metric: str | Metric,
    *,
    seeds: Sequence[tuple[Sums, Sums]] = (),
) -> Interval:
    """Returns the paired difference `first - second` on the same clients.

    For a perplexity, returns the factor `first / second`.

    >>> words = {"tokens": np.full(3, 12), "eos_tokens": np.full(3, 2)}
    >>> first = words | {"hits_at_3": np.array([5, 6, 7])}
    >>> second = words | {"hits_at_3": np.array([4, 5, 6])}
    >>> round(metric_difference(first, second, "recall_at_3_no_eos").value, 2)
    0.1

    Args:
      first: Sums of a model; for a method with several seeds, the sums over them.
      second: Sums of the other model, on the same clients.
      metric: Name in the metric table, or a metric.
      seeds: Sums of both models for each seed, if the interval should cover other seeds, too.
    """
    metric = metric_of(metric)
    interval = difference_interval(*parts(first, metric), *parts(second, metric))
    alone = [difference_interval(*parts(a, metric), *parts(b, metric)).value for a, b in seeds]
    interval = with_seeds(interval, alone)
    return _exponential(interval) if metric.is_perplexity else interval


def federated_metrics(
    sums: Mapping[str, Any], own_metrics: Sequence[Metric] = ()
) -> dict[str, float]:
    """Returns the metrics of a federated validation.

        metrics = federated_metrics(sums)  # one array over clients for each name in FEDERATED_SUMS
        print(metrics["recall_at_3_no_eos"])

    Args:
      sums: Every name in `FEDERATED_SUMS`, each a scalar or an array over clients, which is summed.
      own_metrics: Further metrics, whose sums are among `sums`.

    Returns:
      Every name in `FEDERATED_METRICS`, and of the further metrics; nan if a denominator is 0.
    """
    metrics = [*map(metric_of, FEDERATED_METRICS), *own_metrics]
    return {metric.name: metric_value(sums, metric) for metric in metrics}


def _exp(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(value))


def _exponential(interval: Interval) -> Interval:
    """Returns exp of an interval, with the standard error by the delta method."""
    value, low, high = (_exp(end) for end in interval[:3])
    return interval._replace(
        value=value, low=low, high=high, standard_error=value * interval.standard_error
    )
