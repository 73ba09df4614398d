"""Compares models on the same people: paired differences, verdicts, shares of people better off.

Every interval is a 95 % jackknife over people (`evaluation/statistics/jackknife.py`). A difference
leaves the same person out of both models, so that what makes a person easy or hard to predict
cancels. The verdict is what its interval says and nothing more; among many some will miss:

    better / worse         the interval lies on one side of zero
    not distinguishable    it does not

Perplexities are compared as a ratio, exp of the paired difference in nats: 0.9 is 10 % lower. With
different vocabularies they are not compared: knowing fewer words is an easier task.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.evaluation.metrics.metric_table import HEADLINES, Metric, computable
from tff_keyboard.evaluation.results.result import Evaluation, TextFacts, pooled_sums
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.people import share_better
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference

FORMAT = "tff-keyboard comparison 4"

FEWEST_SEEDS = 3  # that a claim about a rule rests on


@dataclasses.dataclass(frozen=True)
class Difference:
    """Difference in one metric, a model to the first one."""

    interval: Interval  # paired difference; of a perplexity the factor
    verdict: str  # "better", "worse", "not distinguishable", or "" where there is nothing to say
    better_off: Interval  # share of people for whom the model is better than the first

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        share = self.better_off.to_json()["value"]
        return {**self.interval.to_json(), "verdict": self.verdict, "people_better_off": share}


def verdict(difference: Interval, *, better: str, neutral: float = 0.0) -> str:
    """What an interval of a difference says; "" where it says nothing, or nothing is `better`.

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
    """What trainings with several seeds say together: `pooled` if `FEWEST_SEEDS` lie on one side.

    `pooled` is the `verdict` of the interval over people and seeds (`pooled_difference`), and
    `of_seeds` has the difference of each seed by itself; None where it has none.

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
    """Difference of the first model to the second, on the same people."""
    interval = metric_difference(first, second, metric.name)
    said = verdict(interval, better=metric.better, neutral=metric.neutral)
    return Difference(interval, said, share_better(first, second, metric.name))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models on one text; differences are to the first.

    Attributes:
      evaluations: One a model, of the same text.

    Raises:
      ValueError: There is none, or their texts differ.
    """

    evaluations: tuple[Evaluation, ...]

    def __post_init__(self) -> None:
        if not self.evaluations:
            raise ValueError("A comparison needs a model.")
        pooled_sums(self.evaluations)  # refuses other people

    @property
    def first(self) -> Evaluation:
        """The one that the others are compared with."""
        return self.evaluations[0]

    @property
    def text(self) -> TextFacts:
        """What all were evaluated on."""
        return self.first.text

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return [evaluation.model.name for evaluation in self.evaluations]

    @functools.cached_property
    def differences(self) -> list[dict[str, Difference]]:
        """Differences of each later model, by metric, of the metrics that can be compared."""
        sums = self.first.sums
        return [
            {metric.name: difference(model.sums, sums, metric) for metric in self.comparable(model)}
            for model in self.evaluations[1:]
        ]

    def comparable(self, model: Evaluation) -> list[Metric]:
        """Headline metrics that say something about this model next to the first."""
        both = set(computable(model.sums)) & set(computable(self.first.sums))
        same_words = model.model.vocabulary_fingerprint == self.first.model.vocabulary_fingerprint
        headlines = [metric for metric in HEADLINES if metric.name in both and metric.better]
        return [metric for metric in headlines if same_words or not metric.is_perplexity]

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` makes an equal comparison of them."""
        first, *others = self.names
        found = [{name: one.to_json() for name, one in each.items()} for each in self.differences]
        return {
            "format": FORMAT,
            "text": self.text.to_json(),
            "models": [evaluation.body_to_json() for evaluation in self.evaluations],
            "differences": [
                {"model": model, "to": first, "metrics": metrics}
                for model, metrics in zip(others, found, strict=True)
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Comparison":
        """Reads what `to_json` wrote; else a `KeyError`, `TypeError` or `ValueError`."""
        if content["format"] != FORMAT:
            raise ValueError("another version")
        text = TextFacts.from_json(content["text"])
        return cls(tuple(Evaluation.body_from_json(m, text) for m in content["models"]))


def pooled_difference(
    evaluations: Sequence[Evaluation], controls: Sequence[Evaluation], name: str
) -> Interval:
    """Paired difference of two methods, each the sum over its seeds.

    With several seeds, as many of both, its interval is for other people and other seeds: the
    differences of single seeds scatter, too (`evaluation/statistics/jackknife.py:with_seeds`). With
    one it is over people alone. Of a perplexity it is the factor. Raises `ValueError` if the
    evaluations are not of the same people, or not as many.
    """
    pooled_sums([*evaluations, *controls])
    if len(evaluations) != len(controls):
        raise ValueError("A paired difference needs as many evaluations of both methods.")
    seeds = [(one.sums, other.sums) for one, other in zip(evaluations, controls, strict=True)]
    return metric_difference(pooled_sums(evaluations), pooled_sums(controls), name, seeds=seeds)
