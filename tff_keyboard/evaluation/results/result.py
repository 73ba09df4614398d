"""The result of one model on one text, as a typed value and as a file.

A file contains sums per client, from which every metric and interval is computed again when it is
read; its `metrics` are only for readers of the file. Clients have pseudonyms that only their
store can resolve (`ClientStore.pseudonym`). They are sorted by pseudonym, because the order of the
ids would reveal the ids. Two evaluations on equal stores have the same pseudonyms in the same
order.

    {"format": "tff-keyboard evaluation 4",
     "text":   name, people, words, words_left_out, max_length, pseudo_users, store, store_path
     "model":  name, kind, source, vocabulary_rows, vocabulary_fingerprint, details
     "metrics": name -> value, low, high
     "own_metrics": name -> label, kind, better, source of each metric of the user
     "sums":   name -> list over clients
     "slices": family -> slice -> name -> list over clients
     "seconds"
     "general": an evaluation on the general corpus of a fine-tuning run, if there is one}
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.metric_table import (
    HEADLINES,
    HOST_SUMS,
    METRICS,
    Metric,
    computable,
)
from tff_keyboard.evaluation.statistics import sums as sums_lib
from tff_keyboard.evaluation.statistics.breakdown import Part, breakdown
from tff_keyboard.evaluation.statistics.clients import Spread, spread
from tff_keyboard.evaluation.statistics.jackknife import Interval, effective_number
from tff_keyboard.evaluation.statistics.reliability import Bin, reliability
from tff_keyboard.evaluation.statistics.sums import Sums
from tff_keyboard.storage import files, json_text
from tff_keyboard.storage.errors import DataError

FORMAT = "tff-keyboard evaluation 4"

Slices = Mapping[str, Mapping[str, Sums]]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFacts:
    """Facts about the evaluated text."""

    name: str  # a population, or the name of a file
    people: tuple[str, ...]  # pseudonyms of the clients, sorted, in the order of the sums
    words: int
    # Words beyond `max_length` targets of their message; None if unknown
    words_left_out: int | None = None
    max_length: int = 0  # maximum number of targets in a message; 0 for whole messages
    pseudo_users: bool = False  # whether the clients are blocks of lines of one text
    store: str | None = None  # hash of the client store's card; None for a text file
    store_path: str | None = None
    # The unit of `people` if they are not clients, such as "groups of devices"; "" otherwise
    unit: str = ""

    def to_json(self) -> dict[str, object]:
        """Returns plain values."""
        content = {**dataclasses.asdict(self), "people": list(self.people)}
        if not self.unit:
            del content["unit"]
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "TextFacts":
        """Reads the result of `to_json`."""
        return cls(**{**content, "people": tuple(content["people"])})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Facts about the evaluated model."""

    name: str
    kind: str = "keras"  # "keras", "ngram" or "tflite"
    source: str = ""  # its name on the command line; "" if unknown
    vocabulary_rows: int = 0  # V; 0 if unknown
    # Fingerprint of its words and rules; "" if unknown
    vocabulary_fingerprint: str = ""
    # Other facts: order of an n-gram, bytes of a file
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnMetricFacts:
    """Facts about a metric of the user: two evaluations with equal facts can be compared."""

    label: str
    kind: str
    better: str
    # Reference, version, SHA-256 and options of its code (`own_metrics.CountedMetric`)
    source: Mapping[str, Any]

    def metric(self, name: str) -> Metric:
        """Returns the row of the metric table."""
        return own_metrics.own_metric(
            name, label=self.label, kind=self.kind, better=self.better, source=self.source
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of one model on one text.

        evaluation = evaluate_run("runs/sms", "held_out")
        print(evaluation.metrics["recall_at_3_no_eos"].value)

    Attributes:
      model: The model.
      text: The text.
      sums: Name -> [clients], for all or some names in `HOST_SUMS`, and of the user's metrics.
      slices: Family -> slice -> name -> [clients]; empty if a file has none.
      seconds: Duration of the evaluation.
      general: Result of the same model on the general corpus, if there is one.
      own_metrics: Name -> facts of the user's metrics.
    """

    model: ModelFacts
    text: TextFacts
    sums: Sums
    slices: Slices = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    general: "Evaluation | None" = None
    own_metrics: Mapping[str, OwnMetricFacts] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def table(self) -> dict[str, Metric]:
        """The rows of the metric table that its sums are enough for, and of the user's metrics."""
        rows = {name: METRICS[name] for name in computable(self.sums)}
        return rows | {name: facts.metric(name) for name, facts in self.own_metrics.items()}

    @property
    def headlines(self) -> list[Metric]:
        """The metrics of printed tables."""
        return [*HEADLINES, *(self.table[name] for name in self.own_metrics)]

    @functools.cached_property
    def metrics(self) -> dict[str, Interval]:
        """Every metric that its sums are enough for, with its interval over clients."""
        return {
            name: sums_lib.metric_interval(self.sums, metric) for name, metric in self.table.items()
        }

    @functools.cached_property
    def spreads(self) -> dict[str, Spread]:
        """Every metric over clients with equal weights."""
        return {name: spread(self.sums, metric) for name, metric in self.table.items()}

    @functools.cached_property
    def parts(self) -> dict[str, dict[str, Part]]:
        """Parts of the text by family: slices, heavy and light users."""
        return breakdown(self.sums, self.slices)

    @functools.cached_property
    def reliability(self) -> list[Bin]:
        """Probability and correctness of first suggestions; empty if not counted."""
        return reliability(self.slices.get("confidence", {}))

    @property
    def effective_clients(self) -> float:
        """Kish's effective number of clients, by words typed."""
        return effective_number(self.sums["tokens"] - self.sums["eos_tokens"])

    def to_json(self) -> dict[str, object]:
        """Returns plain values, from which `from_json` builds an equal evaluation."""
        content = {"format": FORMAT, "text": self.text.to_json(), **self.body_to_json()}
        if self.general is not None:
            content["general"] = self.general.to_json()
        return content

    def body_to_json(self) -> dict[str, object]:
        """Returns all but format, text and general corpus, which a comparison writes once."""
        users_metrics = {
            name: dataclasses.asdict(facts) for name, facts in self.own_metrics.items()
        }
        return {
            "model": dataclasses.asdict(self.model),
            "seconds": self.seconds,
            "metrics": {name: interval.to_json() for name, interval in self.metrics.items()},
            **({"own_metrics": users_metrics} if users_metrics else {}),
            "sums": _lists(self.sums),
            "slices": {
                family: {label: _lists(sums) for label, sums in slices.items()}
                for family, slices in self.slices.items()
            },
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Evaluation":
        """Reads the result of `to_json`.

        Raises `KeyError`, `TypeError` or `ValueError` if it is invalid.
        """
        if content["format"] != FORMAT:
            raise ValueError("another version")
        evaluation = cls.body_from_json(content, TextFacts.from_json(content["text"]))
        if content.get("general"):
            general = cls.from_json(content["general"])
            evaluation = dataclasses.replace(evaluation, general=general)
        return evaluation

    @classmethod
    def body_from_json(cls, content: Mapping[str, Any], text: TextFacts) -> "Evaluation":
        """Reads the result of `body_to_json`."""
        clients = len(text.people)
        users_metrics = {
            name: OwnMetricFacts(**facts) for name, facts in content.get("own_metrics", {}).items()
        }
        users_sums = [
            name for each in users_metrics for name in users_metrics[each].metric(each).sums
        ]
        return cls(
            model=ModelFacts(**content["model"]),
            text=text,
            own_metrics=users_metrics,
            sums=arrays(content["sums"], clients, users_sums),
            slices={
                family: {label: arrays(sums, clients) for label, sums in slices.items()}
                for family, slices in content["slices"].items()
            },
            seconds=float(content["seconds"]),
        )


def pooled_sums(evaluations: Sequence[Evaluation]) -> dict[str, np.ndarray]:
    """Adds the sums of several evaluations (seeds) on the same clients, client by client.

    Raises `ValueError` if the evaluations have different clients or texts.
    """
    texts = {(e.text.store, e.text.name, e.text.max_length, e.text.people) for e in evaluations}
    if len(texts) != 1:
        raise ValueError("Evaluations can be pooled or compared only on the same clients.")
    return {
        name: np.sum([evaluation.sums[name] for evaluation in evaluations], axis=0)
        for name in evaluations[0].sums
        if all(name in evaluation.sums for evaluation in evaluations)
    }


def arrays(
    lists: Mapping[str, Sequence[float]], num_clients: int, own_sums: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Checks and converts the sums in a file: name -> [clients]. Ignores unknown names.

    `own_sums` are names of sums of the user's metrics.

    Raises `ValueError` if a sum does not have a finite number for each client.
    """
    sums: dict[str, np.ndarray] = {}
    kinds = {**HOST_SUMS, **dict.fromkeys(own_sums, float)}
    for name, values in lists.items():
        if name in kinds:
            sums[name] = np.asarray(values, np.float64).astype(kinds[name])
            if sums[name].shape != (num_clients,) or not np.isfinite(sums[name]).all():
                raise ValueError(f"{name} does not have one number per client")
    return sums


def read_json(path: pathlib.Path, parse: Callable[[Mapping[str, Any]], _T], again: str) -> _T:
    """Reads a file of results with `parse`, which is a `from_json`.

    Raises `DataError` if the file cannot be read, is damaged, or has an unknown version.
    """
    try:
        return parse(json_text.parse(files.content(path, follow_link=True)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{path}: this version cannot read these results. Run `{again}` again."
        ) from None


def _lists(sums: Sums) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in sums.items()}


assert all(metric.sums <= set(HOST_SUMS) for metric in METRICS.values())
