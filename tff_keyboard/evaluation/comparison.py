"""Compares models on the same people: intervals, paired differences, verdicts.

Every interval is a 95 % jackknife over people (`metrics/jackknife.py`). A difference leaves the
same person out of both models, so that what makes a person easy or hard to predict cancels. The
verdict is what its interval says and nothing more:

    better / worse         the interval lies on one side of zero
    not distinguishable    it does not

Each interval covers with 95 % on its own; among many comparisons some will miss.

Perplexities are compared as a ratio, exp of the paired difference in nats: 0.9 is 10 % lower. With
different vocabularies they are not compared at all, as a model that knows fewer words has an
easier task.
"""

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.evaluation.evaluation_sums import PERPLEXITIES, combine
from tff_keyboard.evaluation.metric_labels import HEADLINES
from tff_keyboard.evaluation.predictor_evaluation import PREDICTOR_RATIOS
from tff_keyboard.metrics.jackknife import Interval, difference_interval, ratio_interval

FORMAT = "tff-keyboard comparison 1"

Sums = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class ModelResult:
    """One model on one text.

    Attributes:
      name: What to call it.
      kind: "keras", "ngram" or "tflite".
      vocabulary_rows: V.
      vocabulary_fingerprint: Of its words and rules.
      sums: Name -> [people] from `predictor_evaluation.evaluate`.
      seconds: What the evaluation took.
      suggestion_milliseconds: "p50" and "p95" of one call of `suggest`.
      details: Anything else worth keeping: order of an n-gram, bytes of a file.
    """

    name: str
    kind: str
    vocabulary_rows: int
    vocabulary_fingerprint: str
    sums: Sums
    seconds: float
    suggestion_milliseconds: Mapping[str, float]
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def metric_interval(sums: Sums, name: str) -> Interval:
    """A ratio or perplexity over people, with its interval."""
    ratio = PERPLEXITIES.get(name, name)
    numerator, denominator = (combine(sums, signs) for signs in PREDICTOR_RATIOS[ratio])
    interval = ratio_interval(numerator, denominator)
    return _exponential(interval) if name in PERPLEXITIES else interval


def metric_difference(first: Sums, second: Sums, name: str) -> Interval:
    """Paired `first - second`; for a perplexity the ratio `first / second`."""
    ratio = PERPLEXITIES.get(name, name)
    parts = [combine(sums, signs) for sums in (first, second) for signs in PREDICTOR_RATIOS[ratio]]
    interval = difference_interval(*parts)
    return _exponential(interval) if name in PERPLEXITIES else interval


def verdict(difference: Interval, *, better: str, neutral: float = 0.0) -> str:
    """What an interval of a difference says; "" where it says nothing.

    Args:
      difference: Of a model to the one it is compared with.
      better: "higher" or "lower"; "" gives no verdict.
      neutral: The value of no difference: 0, or 1 for ratios.

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


def compare(
    models: Sequence[ModelResult], people: Sequence[str], text: Mapping[str, Any]
) -> dict[str, Any]:
    """The comparison as plain values, ready for JSON.

    Args:
      models: The first is what the others are compared with; all on the same people.
      people: Ids in the order of the sums; written as digests.
      text: What was typed: name, words, and so on.

    Returns:
      `models` with `metrics` (name -> value, low, high) and per-person `sums`, and `differences`
      of each later model to the first (name -> value, low, high, verdict).
    """
    first = models[0]
    names = [*PREDICTOR_RATIOS, *PERPLEXITIES]
    return {
        "format": FORMAT,
        "text": dict(text),
        "people": [hashlib.sha256(person.encode()).hexdigest()[:16] for person in people],
        "models": [
            {
                "name": model.name,
                "kind": model.kind,
                "vocabulary_rows": model.vocabulary_rows,
                "vocabulary_fingerprint": model.vocabulary_fingerprint,
                "seconds": model.seconds,
                "suggestion_milliseconds": dict(model.suggestion_milliseconds),
                "details": dict(model.details),
                "metrics": {name: _plain(metric_interval(model.sums, name)) for name in names},
                "sums": {name: values.tolist() for name, values in model.sums.items()},
            }
            for model in models
        ],
        "differences": [
            {"model": model.name, "to": first.name, "metrics": _differences(model, first)}
            for model in models[1:]
        ],
    }


def _differences(model: ModelResult, first: ModelResult) -> dict[str, Any]:
    same_words = model.vocabulary_fingerprint == first.vocabulary_fingerprint
    rows = {}
    for metric in HEADLINES:
        if metric.name in PERPLEXITIES and not same_words:
            continue
        difference = metric_difference(model.sums, first.sums, metric.name)
        neutral = 1.0 if metric.name in PERPLEXITIES else 0.0
        rows[metric.name] = {
            **_plain(difference),
            "verdict": verdict(difference, better=metric.better, neutral=neutral),
        }
    return rows


def _exponential(interval: Interval) -> Interval:
    """exp of an interval; the standard error by the delta method."""
    with np.errstate(over="ignore"):
        value, low, high = (float(np.exp(x)) for x in interval[:3])
    return Interval(value, low, high, value * interval.standard_error, interval.clients)


def _plain(interval: Interval) -> dict[str, float | None]:
    """JSON has no NaN."""
    return {
        name: None if math.isnan(value) else value
        for name, value in zip(("value", "low", "high"), interval[:3], strict=True)
    }
