"""How many people a test needs to see a difference, from how much people differ.

The standard error of a metric over the K people of an evaluation falls with the root of K, so

    K' = K (d s / lift)^2

people who type as unevenly as these have the error that a lift needs: s is the jackknife's standard
error over the K, d the drift of `sequential.drift_for`.

    replay      both models on the text of the same people: s is that of the paired difference
    experiment  half of the people have each model: s is sqrt(2) times that of the metric, and K'
                people are needed for each of the two

Several metrics that must each be claimed share the error by Holm's procedure (1979, Scand. J.
Statist. 6), whose first step is alpha / m: what the hardest of m metrics may need.
"""

import dataclasses
import math

from tff_keyboard.evaluation.metrics.metric_table import METRICS, computable, metric_called
from tff_keyboard.evaluation.statistics import sequential
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference, metric_interval


@dataclasses.dataclass(frozen=True)
class Design:
    """A test."""

    alpha: float = 0.05  # probability of a difference that is none, two-sided, over all metrics
    power: float = 0.8  # probability to see the lift if it is there
    looks: int = 1  # looks at the figures, the last one included
    metrics: int = 1

    @property
    def drift(self) -> float:
        """Standard errors that a lift must be worth at the end."""
        return sequential.drift_for(self.power, self.looks, self.alpha / self.metrics)

    @property
    def bounds(self) -> tuple[float, ...]:
        """Bounds of the test statistic, at each look."""
        return sequential.bounds(self.looks, self.alpha / self.metrics)


@dataclasses.dataclass(frozen=True)
class Need:
    """What a test needs."""

    metric: str
    people: int  # K, that the error was measured on
    standard_error: float  # s; of a perplexity, of its logarithm
    lift: float  # asked for; of a perplexity, the logarithm of the factor
    needed: int  # people needed, K', rounded up
    least_lift: float  # the smallest lift that the K people show with this power


def lift_of(word: str) -> tuple[str, float]:
    """Metric and lift of "METRIC:POINTS", of a perplexity "METRIC:PERCENT", or a `ValueError`.

    >>> lift_of("top-3:0.5"), lift_of("perplexity:5")
    (('recall_at_3_no_eos', 0.005), ('perplexity', 0.95))
    """
    name, _, number = word.partition(":")
    metric = metric_called(name)
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"A lift reads METRIC:POINTS, such as top-3:0.5; got {word!r}.") from None
    if metric.is_perplexity:
        return metric.name, 1 - value / 100
    return metric.name, metric.from_points(value)


def of_replay(first: Sums, second: Sums, metric: str, lift: float, design: Design) -> Need:
    """Both models on the same people, [people] sums each.

    `lift` is the difference to be seen: a share (0.01 a point), of a perplexity a factor below 1.
    Raises `ValueError` if the lift is no lift, or there are fewer than two people.
    """
    _check_counted(metric, first, second)
    return _need(metric_difference(first, second, metric), metric, lift, design, groups=1)


def of_experiment(sums: Sums, metric: str, lift: float, design: Design) -> Need:
    """Each model has people of its own, `needed` of them; arguments as of `of_replay`."""
    _check_counted(metric, sums)
    return _need(metric_interval(sums, metric), metric, lift, design, groups=2)


def _check_counted(metric: str, *sums: Sums) -> None:
    if not all(metric in computable(each) for each in sums):
        raise ValueError(f"The results have no {metric}: it was not counted.")


def _need(interval: Interval, metric: str, lift: float, design: Design, *, groups: int) -> Need:
    size, error = abs(lift), interval.standard_error
    if METRICS[metric].is_perplexity:
        if not 0 < lift < 1:
            raise ValueError(f"A lift of perplexity is a factor between 0 and 1, got {lift:g}.")
        size, error = -math.log(lift), error / interval.value
    if not (math.isfinite(size) and size > 0):
        raise ValueError(f"A lift must not be 0, got {lift:g}.")
    if interval.clients < 2 or not math.isfinite(error):
        raise ValueError("How much people differ takes at least two of them.")
    drift = design.drift * math.sqrt(groups)
    return Need(
        metric=metric,
        people=interval.clients,
        standard_error=error,
        lift=size,
        needed=max(2, math.ceil(interval.clients * (drift * error / size) ** 2)),
        least_lift=drift * error,
    )
