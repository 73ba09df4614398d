"""Evaluates any `Predictor` on what people typed: sums per person, in whole and by slice.

One pass over the text serves all metrics. The sums of federated evaluation are counted in
TensorFlow too (`tensorflow_sums.py`); ratios mean the same whoever added them up. Evaluate,
compare, the parity gate, personalisation and train-server all count through this module.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.metric_table import HOST_SUMS, STRIP
from tff_keyboard.evaluation.positions import (
    Batch,
    Positions,
    longest_target,
    score,
    text_batches,
)
from tff_keyboard.evaluation.slices import FAMILIES, SLICE_SUMS
from tff_keyboard.evaluation.typed_text import TypedText
from tff_keyboard.metrics import typists
from tff_keyboard.metrics.impressions import reciprocal_ranks
from tff_keyboard.metrics.keystrokes import keystrokes_with_selection
from tff_keyboard.metrics.predictor import Predictor
from tff_keyboard.metrics.prefix_index import PrefixIndex

_POSITIONS_AT_ONCE = 2**18  # kept before they are added up: 35 MB

SliceSums = dict[str, dict[str, dict[str, np.ndarray]]]  # family -> slice -> sum -> [people]


@dataclasses.dataclass(frozen=True)
class Counts:
    """What a model is worth on a text.

    Attributes:
      sums: Every name of `HOST_SUMS` -> [people], int64 or float64.
      slices: Family -> slice -> every name of `SLICE_SUMS` -> [people]; slices nobody has a
        position in are left out.
    """

    sums: dict[str, np.ndarray]
    slices: SliceSums


@runtime_checkable
class StreamingPredictor(Predictor, Protocol):
    """A model that learns from what a person typed before, so that order matters."""

    def stream(
        self, text: TypedText, *, max_length: int = 0, reference: Vocabulary | None = None
    ) -> Iterator[Positions]:
        """Every position of a text, scored before anything behind it is learnt.

        What was learnt from one person is forgotten before the next one and at the end. Arguments
        as `evaluate`; positions come person by person, in the order typed.
        """
        ...


class Counter:
    """Adds up the positions of one model.

    Args:
      vocabulary: Of the model.
      people: How many there are.
    """

    def __init__(self, vocabulary: Vocabulary, people: int):
        self._index = PrefixIndex(vocabulary)
        self._people = people
        self._waiting: list[Positions] = []
        self._sums: dict[str, np.ndarray] = {
            name: np.zeros(people, kind) for name, kind in HOST_SUMS.items()
        }
        self._slices: dict[str, dict[str, np.ndarray]] = {
            family: {name: np.zeros([people, len(cut.labels)], HOST_SUMS[name])
                     for name in SLICE_SUMS}
            for family, cut in FAMILIES.items()
        }  # fmt: skip

    def add(self, batch: Batch, scores: np.ndarray) -> None:
        """Counts a batch.

        Args:
          batch: Of `text_batches`.
          scores: [n, V] log-probabilities at its `inputs`.
        """
        self.add_positions(score(batch, scores, self._index))

    def add_positions(self, positions: Positions) -> None:
        """Counts positions that were scored already."""
        self._waiting.append(positions)
        if sum(map(len, self._waiting)) > _POSITIONS_AT_ONCE:
            self._add_up()

    def counts(self) -> Counts:
        """Of all batches so far."""
        self._add_up()
        slices: SliceSums = {}
        for family, table in self._slices.items():
            slices[family] = {
                label: {name: values[:, place] for name, values in table.items()}
                for place, label in enumerate(FAMILIES[family].labels)
                if table["tokens"][:, place].any()
            }
        return Counts(dict(self._sums), slices)

    def _add_up(self) -> None:
        if not self._waiting:
            return
        positions = Positions.concatenate(self._waiting)
        self._waiting = []
        columns = _columns(positions)
        for name, values in columns.items():
            self._sums[name] += _total(values, positions.owner, self._people, HOST_SUMS[name])
        for family, table in self._slices.items():
            places = FAMILIES[family].index(positions)
            inside = places >= 0
            width = len(FAMILIES[family].labels)
            key = positions.owner[inside] * width + places[inside]
            for name, values in table.items():
                total = _total(
                    columns[name][inside], key, self._people * width, HOST_SUMS[name]
                )  # fmt: skip
                values += total.reshape(values.shape)


def evaluate(
    predictor: Predictor,
    text: TypedText,
    *,
    max_length: int = 0,
    reference: Vocabulary | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Counts:
    """Counts per person.

    Args:
      predictor: Any model; one that is a `StreamingPredictor` learns as it goes.
      text: Normalised by the rules of the predictor's vocabulary.
      max_length: Targets of a message, at most, its end included; 0 takes whole messages, up to
        `LONGEST_MESSAGE` targets.
      reference: Vocabulary whose ids are ordered by frequency; the predictor's own if None.
      progress: Called with (targets scored, targets in all).

    Raises:
      ValueError: `max_length` is negative.
    """
    most = longest_target(max_length)
    total = sum(min(len(message) + 1, most) for person in text.messages for message in person)
    counter = Counter(predictor.vocabulary, len(text.people))
    done = 0
    if isinstance(predictor, StreamingPredictor):
        for positions in predictor.stream(text, max_length=max_length, reference=reference):
            counter.add_positions(positions)
            done += len(positions)
            if progress is not None:
                progress(done, total)
        return counter.counts()
    for batch in text_batches(
        text, predictor.vocabulary, max_length=max_length, reference=reference
    ):
        counter.add(batch, predictor.log_probabilities(batch.inputs))
        done += int(np.count_nonzero(batch.real))
        if progress is not None:
            progress(done, total)
    return counter.counts()


def _total(values: np.ndarray, key: np.ndarray, size: int, kind: type) -> np.ndarray:
    """Sums of values that share a key: [size]."""
    totals = np.bincount(key, weights=values, minlength=size)
    return totals if kind is float else totals.astype(np.int64)  # exact: far below 2^53


def _columns(positions: Positions) -> dict[str, np.ndarray]:
    """What each position adds to each sum of `HOST_SUMS`: name -> [n]."""
    is_word, is_eos, is_oov = positions.is_word, positions.is_eos, positions.is_oov
    is_first = positions.place == 0
    offered = is_word | positions.named
    on_strip = offered & (positions.rank < STRIP)
    word_or_eos = is_word | is_eos
    is_best = positions.rank_of_all == 0
    everywhere = np.ones(len(positions))
    return {
        "examples": is_first,
        "tokens": everywhere,
        "eos_tokens": is_eos,
        "oov_tokens": is_oov,
        "nll": positions.losses,
        "nll_eos": np.where(is_eos, positions.losses, 0.0),
        "nll_oov": np.where(is_oov, positions.losses, 0.0),
        "hits_at_1": is_word & (positions.rank < 1),
        "hits_at_3": is_word & on_strip,
        "hits_at_1_eos_allowed": word_or_eos & (positions.rank_or_eos < 1),
        "hits_at_3_eos_allowed": word_or_eos & (positions.rank_or_eos < STRIP),
        "argmax_hits_words": is_best & is_word,
        "argmax_hits_eos": is_best & is_eos,
        "argmax_hits_oov": is_best & is_oov,
        "characters": positions.lengths,
        "oov_characters": np.where(is_oov, positions.lengths, 0),
        "typed_free": positions.typed,
        "typed_counted": keystrokes_with_selection(positions.typed, positions.lengths),
        "masked_words": positions.masked,
        **_efforts(positions),
        "reciprocal_ranks": reciprocal_ranks(positions.rank, offered, STRIP),
        "impressions": everywhere,
        "impression_matches": on_strip,
        "zero_state_impressions": is_first,
        "zero_state_matches": on_strip & is_first,
        "confidence": positions.confidence,
        "oov_hits_at_1": positions.named & (positions.rank < 1),
        "oov_hits_at_3": positions.named & on_strip,
    }


def _efforts(positions: Positions) -> dict[str, np.ndarray]:
    """Expected keys and seconds of each typist; without a strip they are the same for all."""
    found = {}
    for name, typist in typists.TYPISTS.items():
        effort = typists.with_strip(positions.typed, positions.lengths, positions.rank, typist)
        found[f"keys_{name}"], found[f"seconds_{name}"] = effort
    found["plain_keys"], found["plain_seconds"] = typists.plain(positions.lengths, typist)
    return found
