"""Paired non-inferiority over clients: whether a new model may replace the current one.

    d = new - old, on the same clients;  [low, high] its 95 % jackknife interval;  m the margin
    no worse    low >= -m     for any true difference in the interval, the loss is within the margin
    worse       high < -m
    undecided   otherwise: too few clients

(with opposite signs if lower is better). Only "no worse" passes the gate, because a difference that
is "not distinguishable" from zero may only mean that there are few clients. The interval is
two-sided, so a model that loses m or more passes with a probability of 2.5 % for each metric.
Source: Piaggio et al. 2012 (CONSORT, non-inferiority), https://doi.org/10.1001/jama.2012.87802.
"""

import dataclasses
import math
from collections.abc import Sequence

from tff_keyboard.evaluation.metrics.metric_table import HEADLINES, SHORT_NAMES, Metric
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.storage.errors import CheckFailed, UsageError

_EXAMPLE = "Example: --fail-if-worse=top-3:0.2,kss:0.2."

NO_WORSE, WORSE, UNDECIDED = "no worse", "worse", "undecided"


@dataclasses.dataclass(frozen=True)
class Margin:
    """The allowed loss of a new model in one metric."""

    metric: Metric
    # Size: in percentage points, in percent of a perplexity, or else in the metric's unit
    points: float

    @property
    def limit(self) -> float:
        """The worst allowed difference; a factor for a perplexity."""
        if self.metric.is_perplexity:
            return 1 + self.points / 100
        size = self.metric.from_points(self.points)
        return size if self.metric.better == "lower" else -size

    def verdict(self, difference: Interval) -> str:
        """Returns `NO_WORSE`, `WORSE` or `UNDECIDED`; the last one if the interval is unknown.

        >>> margin = parse_margins("kss:0.2")[0]
        >>> [margin.verdict(Interval(0.0, low, high, 0.001, 9))
        ...  for low, high in ((-0.001, 0.002), (-0.003, 0.004), (-0.009, -0.003))]
        ['no worse', 'undecided', 'worse']
        """
        low, high, limit = difference.low, difference.high, self.limit
        if self.metric.better == "lower":
            low, high, limit = -high, -low, -limit
        if math.isnan(low):
            return UNDECIDED
        if low >= limit:
            return NO_WORSE
        return WORSE if high < limit else UNDECIDED


@dataclasses.dataclass(frozen=True)
class GateLine:
    """The result of one model in one metric."""

    model: str
    margin: Margin
    difference: Interval
    verdict: str

    def __str__(self) -> str:
        metric, found = self.margin.metric, self.difference
        scale = 100 if metric.kind == "percent" else 1
        value, low, high = (scale * end for end in found[:3])
        what = "factor" if metric.is_perplexity else "difference"
        return (
            f"{self.model}: {metric.label}, {what} {value:+.3f} [{low:+.3f}, {high:+.3f}], limit "
            f"{scale * self.margin.limit:+.3f}: {self.verdict}"
        )


def parse_margins(text: str) -> tuple[Margin, ...]:
    """Parses margins from the command line, such as "top-3:0.2,kss:0.2".

    Raises `UsageError` if a metric is unknown or not compared, or a number is not >= 0.
    """
    compared = {metric.name: metric for metric in HEADLINES if metric.better}
    margins = []
    for item in text.split(","):
        name, _, number = item.strip().partition(":")
        metric = compared.get(SHORT_NAMES.get(name, name))
        if metric is None:
            known = ", ".join([*SHORT_NAMES, *compared])
            raise UsageError(f"{name!r} is not one of the metrics {known}. {_EXAMPLE}")
        try:
            points = float(number)
        except ValueError:
            points = math.nan
        if not 0 <= points < math.inf:
            raise UsageError(f"The margin of {name!r} must be a number >= 0. {_EXAMPLE}")
        margins.append(Margin(metric, points))
    return tuple(margins)


def gate_lines(comparison: Comparison, margins: Sequence[Margin]) -> list[GateLine]:
    """Compares every later model with the first.

    Raises `CheckFailed` if a metric cannot be compared because the vocabularies differ.
    """
    lines = []
    for model, found in zip(comparison.evaluations[1:], comparison.differences, strict=True):
        for margin in margins:
            if margin.metric.name not in found:
                raise CheckFailed(
                    f"{margin.metric.name} of '{model.model.name}' cannot be compared with "
                    f"'{comparison.first.model.name}': the vocabularies differ, or one model does "
                    "not have it. Choose another metric for --fail-if-worse."
                )
            interval = found[margin.metric.name].interval
            lines.append(GateLine(model.model.name, margin, interval, margin.verdict(interval)))
    return lines


def check_lines(lines: list[GateLine]) -> None:
    """Raises `CheckFailed` with the metrics and models that are not "no worse", if any."""
    failed = [line for line in lines if line.verdict != NO_WORSE]
    if failed:
        named = [f"{line.model} {line.margin.metric.name}: {line.verdict}" for line in failed]
        undecided = any(line.verdict == UNDECIDED for line in failed)
        few = " Undecided: too few clients for this margin." if undecided else ""
        raise CheckFailed(
            "The comparison does not show that the model is within the margin: "
            f"{', '.join(named)}.{few}"
        )
