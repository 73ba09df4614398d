"""Compares models on the same clients: paired differences, verdicts, shares of clients better off.

Every interval is a 95 % jackknife over clients (`evaluation/statistics/jackknife.py`). A difference
leaves the same client out of both models, so that effects of easy and difficult clients cancel. The
verdict depends only on the interval; among many verdicts some will be wrong:

    better / worse         the interval is on one side of zero
    not distinguishable    it contains zero

Perplexities are compared as a ratio, exp of the paired difference in nats: 0.9 is 10 % lower. With
different vocabularies they are not compared, because a smaller vocabulary is an easier task.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.evaluation.metrics.metric_table import Metric
from tff_keyboard.evaluation.results.result import Evaluation, TextFacts, pooled_sums
from tff_keyboard.evaluation.statistics.clients import share_better
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference

FORMAT = "tff-keyboard comparison 4"

FEWEST_SEEDS = 3  # minimum number of seeds for a claim about an aggregator


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference of a model to the first one in one metric."""

    interval: Interval  # paired difference, or the factor for a perplexity
    verdict: str  # "better", "worse", "not distinguishable", or "" if undefined
    better_off: Interval  # share of clients for which the model is better than the first

    def to_json(self) -> dict[str, object]:
        """Returns plain values."""
        share = self.better_off.to_json()["value"]
        return {**self.interval.to_json(), "verdict": self.verdict, "people_better_off": share}


def verdict(difference: Interval, *, better: str, neutral: float = 0.0) -> str:
    """Returns the verdict of an interval of a difference; "" if it is unknown or nothing is better.

    >>> verdict(Interval(0.02, 0.01, 0.03, 0.005, 9), better="higher")
    'better'
    >>> verdict(Interval(0.02, -0.01, 0.05, 0.015, 9), better="higher")
    'not distinguishable'
    """
    if not better or math.isnan(difference.low):
        return ""
    if difference.low <= neutral <= difference.high:
        return "not distinguishable"
    return "better" if (difference.low > neutral) == (better == "higher") else "worse"


def verdict_over_seeds(pooled: str, of_seeds: Sequence[float | None], *, neutral: float) -> str:
    """Returns `pooled` if at least `FEWEST_SEEDS` seeds are all on one side.

    Args:
      pooled: The `verdict` of the interval over clients and seeds (`pooled_difference`).
      of_seeds: The difference of each seed alone; None if it has none.
      neutral: The difference of a model to itself.

    >>> verdict_over_seeds("better", [0.95, 0.93, 0.97], neutral=1.0)
    'better'
    >>> verdict_over_seeds("better", [0.95, 0.93, 1.01], neutral=1.0)
    'not distinguishable'
    >>> verdict_over_seeds("better", [0.95, 0.93], neutral=1.0)
    '2 seeds'
    """
    if len(of_seeds) < FEWEST_SEEDS:
        return "one seed" if len(of_seeds) == 1 else f"{len(of_seeds)} seeds"
    sides = {value is not None and value > neutral for value in of_seeds}
    return pooled if len(sides) == 1 else "not distinguishable"


def difference(first: Sums, second: Sums, metric: Metric) -> Difference:
    """Returns the difference of the first model to the second, on the same clients."""
    interval = metric_difference(first, second, metric)
    label = verdict(interval, better=metric.better, neutral=metric.neutral)
    return Difference(interval, label, share_better(first, second, metric))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Several models on one text. Differences are to the first model.

        comparison = Comparison((read_evaluation(old), read_evaluation(new)))
        print(comparison.differences[0]["recall_at_3_no_eos"].verdict)

    Attributes:
      evaluations: One evaluation per model, of the same text.

    Raises:
      ValueError: If there is no evaluation, or their texts differ.
    """

    evaluations: tuple[Evaluation, ...]

    def __post_init__(self) -> None:
        if not self.evaluations:
            raise ValueError("A comparison requires at least one model.")
        pooled_sums(self.evaluations)  # raises if the clients differ

    @property
    def first(self) -> Evaluation:
        """The evaluation that the others are compared with."""
        return self.evaluations[0]

    @property
    def text(self) -> TextFacts:
        """The text of all evaluations."""
        return self.first.text

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return [evaluation.model.name for evaluation in self.evaluations]

    @functools.cached_property
    def differences(self) -> list[dict[str, Difference]]:
        """Differences of each later model: metric name -> difference, for comparable metrics."""
        sums = self.first.sums
        return [
            {metric.name: difference(model.sums, sums, metric) for metric in self.comparable(model)}
            for model in self.evaluations[1:]
        ]

    def comparable(self, model: Evaluation) -> list[Metric]:
        """Returns the headline metrics in which this model can be compared with the first."""
        same_words = model.model.vocabulary_fingerprint == self.first.model.vocabulary_fingerprint
        of_model, of_first = model.own_metrics, self.first.own_metrics
        return [
            metric
            for metric in self.first.headlines
            if metric.better
            and metric.name in model.metrics
            and metric.name in self.first.metrics
            and (same_words or not metric.is_perplexity)
            and of_model.get(metric.name) == of_first.get(metric.name)
        ]

    @property
    def headlines(self) -> list[Metric]:
        """The metrics of printed tables that at least one model has."""
        rows = {metric.name: metric for model in self.evaluations for metric in model.headlines}
        return [
            metric
            for name, metric in rows.items()
            if any(name in model.metrics for model in self.evaluations)
        ]

    def to_json(self) -> dict[str, object]:
        """Returns plain values, from which `from_json` builds an equal comparison."""
        first, *later_names = self.names
        differences = [
            {name: one.to_json() for name, one in each.items()} for each in self.differences
        ]
        return {
            "format": FORMAT,
            "text": self.text.to_json(),
            "models": [evaluation.body_to_json() for evaluation in self.evaluations],
            "differences": [
                {"model": model, "to": first, "metrics": metrics}
                for model, metrics in zip(later_names, differences, strict=True)
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Comparison":
        """Reads the result of `to_json`.

        Raises `KeyError`, `TypeError` or `ValueError` if it is invalid.
        """
        if content["format"] != FORMAT:
            raise ValueError("another version")
        text = TextFacts.from_json(content["text"])
        return cls(tuple(Evaluation.body_from_json(m, text) for m in content["models"]))


def pooled_difference(
    evaluations: Sequence[Evaluation], controls: Sequence[Evaluation], name: str
) -> Interval:
    """Returns the paired difference of two methods, each summed over its seeds.

    With several seeds, the same number for both methods, the interval covers other clients and
    other seeds, because the differences of single seeds vary, too
    (`evaluation/statistics/jackknife.py:with_seeds`). With one seed it is over clients alone. For a
    perplexity it is the factor. Raises `ValueError` if the evaluations have different clients, or
    their numbers differ.
    """
    pooled_sums([*evaluations, *controls])
    if len(evaluations) != len(controls):
        raise ValueError(
            "A paired difference requires the same number of evaluations for both methods."
        )
    seeds = [(one.sums, other.sums) for one, other in zip(evaluations, controls, strict=True)]
    return metric_difference(pooled_sums(evaluations), pooled_sums(controls), name, seeds=seeds)
