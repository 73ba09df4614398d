"""What one model is worth on one text, as a typed value and as a file.

A file holds sums per person, from which every metric and interval is made again when it is read:
`metrics` in it is for readers of the file. People have names that only their store can undo
(`ClientStore.pseudonym`) and are sorted by them, since the order of their ids would undo them: two
evaluations on equal stores have the same names in the same order.

    {"format": "tff-keyboard evaluation 4",
     "text":   name, people, words, words_left_out, max_length, pseudo_users, store, store_path
     "model":  name, kind, source, vocabulary_rows, vocabulary_fingerprint, details
     "metrics": name -> value, low, high
     "sums":   name -> list over people
     "slices": family -> slice -> name -> list over people
     "seconds", "suggestion_milliseconds"
     "general": an evaluation on the general corpus of a fine-tuning run, where there is one}
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS, METRICS, computable
from tff_keyboard.evaluation.statistics import sums as sums_lib
from tff_keyboard.evaluation.statistics.breakdown import Part, breakdown
from tff_keyboard.evaluation.statistics.jackknife import Interval, effective_number
from tff_keyboard.evaluation.statistics.people import Spread, spread
from tff_keyboard.evaluation.statistics.reliability import Bin, reliability
from tff_keyboard.evaluation.statistics.sums import Sums
from tff_keyboard.storage.errors import DataError

FORMAT = "tff-keyboard evaluation 4"

Slices = Mapping[str, Mapping[str, Sums]]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFacts:
    """What was evaluated on."""

    name: str  # a population, or the name of a file
    people: tuple[str, ...]  # their pseudonyms, sorted, in the order of the sums
    words: int
    # Words beyond `max_length` targets of their message; None where a file does not say
    words_left_out: int | None = None
    max_length: int = 0  # targets of a message at most, 0 for whole messages
    pseudo_users: bool = False  # whether the people are blocks of lines of one text
    store: str | None = None  # hash of the client store's card; None for a file of text
    store_path: str | None = None

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**dataclasses.asdict(self), "people": list(self.people)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "TextFacts":
        """Reads what `to_json` wrote."""
        return cls(**{**content, "people": tuple(content["people"])})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Which model was evaluated."""

    name: str
    kind: str = "keras"  # "keras", "ngram" or "tflite"
    source: str = ""  # how it was named on the command line; "" where a file does not say
    vocabulary_rows: int = 0  # V; 0 where a file does not say
    # Fingerprint of its words and rules; "" where a file does not say
    vocabulary_fingerprint: str = ""
    # Anything else worth keeping: order of an n-gram, bytes of a file
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One model on one text.

    Attributes:
      model: The model.
      text: The text.
      sums: Name -> [people], of `HOST_SUMS` or a part of them.
      slices: Family -> slice -> name -> [people]; empty where a file has none.
      seconds: What it took.
      suggestion_milliseconds: "p50" and "p95" of one call of `suggest`, where measured.
      general: The same model on the general corpus, where there is one.
    """

    model: ModelFacts
    text: TextFacts
    sums: Sums
    slices: Slices = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    suggestion_milliseconds: Mapping[str, float] | None = None
    general: "Evaluation | None" = None

    @functools.cached_property
    def metrics(self) -> dict[str, Interval]:
        """Every metric its sums are enough for, with its interval over people."""
        return {name: sums_lib.metric_interval(self.sums, name) for name in computable(self.sums)}

    @functools.cached_property
    def spreads(self) -> dict[str, Spread]:
        """Every metric over people, each of whom counts once."""
        return {name: spread(self.sums, name) for name in self.metrics}

    @functools.cached_property
    def parts(self) -> dict[str, dict[str, Part]]:
        """Parts of the text by family: slices, heavy and light typists."""
        return breakdown(self.sums, self.slices)

    @functools.cached_property
    def reliability(self) -> list[Bin]:
        """What first suggestions claim and how often they are right; empty if not counted."""
        return reliability(self.slices.get("confidence", {}))

    @property
    def effective_people(self) -> float:
        """Kish's effective number of people, by words typed."""
        return effective_number(self.sums["tokens"] - self.sums["eos_tokens"])

    def to_json(self) -> dict[str, object]:
        """Plain values; `from_json` makes an equal evaluation of them."""
        content = {"format": FORMAT, "text": self.text.to_json(), **self.body_to_json()}
        if self.general is not None:
            content["general"] = self.general.to_json()
        return content

    def body_to_json(self) -> dict[str, object]:
        """All but format, text and general corpus, which a comparison writes once."""
        return {
            "model": dataclasses.asdict(self.model),
            "seconds": self.seconds,
            "suggestion_milliseconds": self.suggestion_milliseconds,
            "metrics": {name: interval.to_json() for name, interval in self.metrics.items()},
            "sums": _lists(self.sums),
            "slices": {
                family: {label: _lists(sums) for label, sums in slices.items()}
                for family, slices in self.slices.items()
            },
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Evaluation":
        """Reads what `to_json` wrote; else a `KeyError`, `TypeError` or `ValueError`."""
        if content["format"] != FORMAT:
            raise ValueError("another version")
        evaluation = cls.body_from_json(content, TextFacts.from_json(content["text"]))
        if content.get("general"):
            general = cls.from_json(content["general"])
            evaluation = dataclasses.replace(evaluation, general=general)
        return evaluation

    @classmethod
    def body_from_json(cls, content: Mapping[str, Any], text: TextFacts) -> "Evaluation":
        """Reads what `body_to_json` wrote."""
        people = len(text.people)
        return cls(
            model=ModelFacts(**content["model"]),
            text=text,
            sums=arrays(content["sums"], people),
            slices={
                family: {label: arrays(sums, people) for label, sums in slices.items()}
                for family, slices in content["slices"].items()
            },
            seconds=float(content["seconds"]),
            suggestion_milliseconds=content["suggestion_milliseconds"],
        )


def pooled_sums(evaluations: Sequence[Evaluation]) -> dict[str, np.ndarray]:
    """Sums added over evaluations (seeds) of the same people, who stay one person each.

    Raises `ValueError` if the evaluations are not of the same people and text.
    """
    texts = {(e.text.store, e.text.name, e.text.max_length, e.text.people) for e in evaluations}
    if len(texts) != 1:
        raise ValueError("Evaluations can be pooled or compared on the same people only.")
    return {
        name: np.sum([evaluation.sums[name] for evaluation in evaluations], axis=0)
        for name in evaluations[0].sums
        if all(name in evaluation.sums for evaluation in evaluations)
    }


def arrays(lists: Mapping[str, Sequence[float]], people: int) -> dict[str, np.ndarray]:
    """Sums of a file, checked and typed: name -> [people]. Names nobody knows are left out.

    Raises `ValueError` if a sum is not a finite number for each person.
    """
    found: dict[str, np.ndarray] = {}
    for name, values in lists.items():
        if name in HOST_SUMS:
            found[name] = np.asarray(values, np.float64).astype(HOST_SUMS[name])
            if found[name].shape != (people,) or not np.isfinite(found[name]).all():
                raise ValueError(f"{name} is not a number for each person")
    return found


def read_json(path: pathlib.Path, parse: Callable[[Mapping[str, Any]], _T], again: str) -> _T:
    """What `parse` (a `from_json`) makes of a file of results.

    Raises `DataError` if it cannot be read, is damaged, or is of a version that is not known.
    """
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(
            f"{path}: holds no results that this version reads. Run `{again}` again."
        ) from None


def _lists(sums: Sums) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in sums.items()}


assert all(metric.sums <= set(HOST_SUMS) for metric in METRICS.values())
