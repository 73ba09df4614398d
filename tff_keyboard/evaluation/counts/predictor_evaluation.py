"""Evaluates any `Predictor` on clients' text: sums per client, in total and by slice.

All metrics are computed in one pass over the text. The text is cut into parts, which are counted
one by one and added in order. The parts depend only on the model's vocabulary and the text, so the
sums have the same bits wherever a part is counted (`Compute`). Federated evaluation counts its sums
in TensorFlow too (`tensorflow_sums.py`). Evaluation, comparison, the parity gate, personalisation
and train-server all use this module.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.counts import hybrid_stream
from tff_keyboard.evaluation.counts.positions import (
    Batch,
    Positions,
    batch_targets,
    extended_vocabulary,
    longest_target,
    score,
    text_batches,
)
from tff_keyboard.evaluation.counts.slices import FAMILIES, SLICE_SUMS
from tff_keyboard.evaluation.counts.typed_text import TypedText, some_clients
from tff_keyboard.evaluation.metrics.keystrokes import keystrokes_with_selection
from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS, STRIP
from tff_keyboard.predictors.hybrid.hybrid_predictor import HybridPredictor
from tff_keyboard.predictors.predictor import Predictor, next_word_scores
from tff_keyboard.predictors.prefix_index import PrefixIndex
from tff_keyboard.predictors.tail_lexicon import tail_of

_POSITIONS_AT_ONCE = 2**16  # positions of a part in memory before they are added up: 9 MB

SliceSums = dict[str, dict[str, dict[str, np.ndarray]]]  # family -> slice -> sum -> [clients]


@dataclasses.dataclass(frozen=True)
class Counts:
    """The sums of a model on a text, per client."""

    sums: dict[str, np.ndarray]  # every name of `HOST_SUMS` -> [clients], int64 or float64
    # Family -> slice -> every name of `SLICE_SUMS` -> [clients], without slices that have no
    # positions
    slices: SliceSums


@dataclasses.dataclass(frozen=True)
class PartCounts:
    """The contribution of a part of a text."""

    clients: np.ndarray  # [n] positions of the clients in the text, increasing
    counts: Counts
    targets: int


class Compute(Protocol):
    """Counts the parts of a text, on this machine or elsewhere."""

    def __call__(
        self,
        predictor: Predictor,
        text: TypedText,
        parts: Sequence[slice],
        *,
        max_length: int,
        reference: Vocabulary | None,
        scored: Callable[[int], None],
    ) -> Iterator[tuple[int, PartCounts]]:
        """Yields the position in `parts` and the `count_part` of each, each once, in any order."""


class Counter:
    """The sums of one model over the positions added so far."""

    def __init__(self, vocabulary: Vocabulary, clients: int):
        self._vocabulary = vocabulary
        self._num_clients = clients
        self._waiting: list[Positions] = []
        self._sums: dict[str, np.ndarray] = {
            name: np.zeros(clients, kind) for name, kind in HOST_SUMS.items()
        }
        self._slices: dict[str, dict[str, np.ndarray]] = {
            family: {
                name: np.zeros([clients, len(cut.labels)], HOST_SUMS[name]) for name in SLICE_SUMS
            }
            for family, cut in FAMILIES.items()
        }

    @functools.cached_property
    def _index(self) -> PrefixIndex:
        return PrefixIndex(self._vocabulary)

    def add(self, batch: Batch, scores: np.ndarray) -> None:
        """Adds a batch of `text_batches`, given [n, V] log-probabilities at its `inputs`."""
        self.add_positions(score(batch, scores, self._index))

    def add_positions(self, positions: Positions) -> None:
        """Adds positions that are already scored."""
        self._waiting.append(positions)
        if sum(map(len, self._waiting)) > _POSITIONS_AT_ONCE:
            self._add_up()

    def add_part(self, part: PartCounts) -> None:
        """Adds a part that was counted elsewhere."""
        for name, values in part.counts.sums.items():
            self._sums[name][part.clients] += values
        for family, slices in part.counts.slices.items():
            for label, sums in slices.items():
                place = FAMILIES[family].labels.index(label)
                for name, values in sums.items():
                    self._slices[family][name][part.clients, place] += values

    def counts(self) -> Counts:
        """Returns the counts of all positions so far."""
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
            self._sums[name] += _total(values, positions.owner, self._num_clients, HOST_SUMS[name])
        for family, table in self._slices.items():
            places = FAMILIES[family].index(positions)
            inside = places >= 0
            width = len(FAMILIES[family].labels)
            key = positions.owner[inside] * width + places[inside]
            for name, values in table.items():
                total = _total(
                    columns[name][inside], key, self._num_clients * width, HOST_SUMS[name]
                )
                values += total.reshape(values.shape)


def evaluate(
    predictor: Predictor,
    text: TypedText,
    *,
    max_length: int = 0,
    reference: Vocabulary | None = None,
    progress: Callable[[int, int], None] | None = None,
    compute: Compute | None = None,
) -> Counts:
    """Returns the counts per client of any model. A `HybridPredictor` learns during the evaluation.

    Args:
      predictor: The model.
      text: Words by the rules of the predictor's vocabulary.
      max_length: As for `text_batches`.
      reference: As for `text_batches`.
      progress: Called with (targets scored, total number of targets).
      compute: Counts the parts; None counts them here, one after the other.
    """
    sizes = _sizes(predictor, text, max_length)
    done = 0

    def scored(targets: int) -> None:
        nonlocal done
        done += targets
        if progress is not None:
            progress(done, sum(sizes))

    counter = Counter(predictor.vocabulary, len(text.clients))
    waiting: dict[int, PartCounts] = {}
    following = 0
    results = (compute or one_by_one)(
        predictor, text, _cut(sizes), max_length=max_length, reference=reference, scored=scored
    )
    for place, found in results:
        waiting[place] = found
        while following in waiting:
            counter.add_part(waiting.pop(following))
            following += 1
    return counter.counts()


def count_part(
    predictor: Predictor,
    text: TypedText,
    part: slice,
    *,
    max_length: int,
    reference: Vocabulary | None,
    scored: Callable[[int], None] = lambda targets: None,
) -> PartCounts:
    """Counts a part of a text: batches of `text_batches`, or clients if the model learns.

    `scored` is called with the number of targets after each step.
    """
    positions = []
    first = 0
    if isinstance(predictor, HybridPredictor):
        first = part.start
        found = hybrid_stream.positions(
            predictor, some_clients(text, part), max_length=max_length, reference=reference
        )
    else:
        found = _of_batches(predictor, text, part, max_length, reference)
    for some in found:
        positions.append(some)
        scored(len(some))
    joined = Positions.concatenate(positions)
    clients, owner = np.unique(joined.owner, return_inverse=True)
    counter = Counter(predictor.vocabulary, len(clients))
    counter.add_positions(dataclasses.replace(joined, owner=owner))
    return PartCounts(clients + first, counter.counts(), len(joined))


def _of_batches(
    predictor: Predictor,
    text: TypedText,
    part: slice,
    max_length: int,
    reference: Vocabulary | None,
) -> Iterator[Positions]:
    tail = tail_of(predictor)
    index = _prefix_index(predictor.vocabulary, () if tail is None else tail.words)
    for batch in text_batches(
        text, predictor.vocabulary, max_length=max_length, reference=reference, only=part, tail=tail
    ):
        scores = predictor.log_probabilities(batch.inputs)
        yield score(batch, scores, index, tail, next_word_scores(predictor, batch.inputs))


@functools.lru_cache(maxsize=2)
def _prefix_index(vocabulary: Vocabulary, further: tuple[str, ...]) -> PrefixIndex:
    return PrefixIndex(extended_vocabulary(vocabulary, further) if further else vocabulary)


def one_by_one(
    predictor: Predictor,
    text: TypedText,
    parts: Sequence[slice],
    *,
    max_length: int,
    reference: Vocabulary | None,
    scored: Callable[[int], None],
) -> Iterator[tuple[int, PartCounts]]:
    """Counts all parts on this machine, one after the other. A `Compute`."""
    count = functools.partial(
        count_part, predictor, text, max_length=max_length, reference=reference, scored=scored
    )
    return enumerate(map(count, parts))


def _sizes(predictor: Predictor, text: TypedText, max_length: int) -> list[int]:
    """Returns the number of targets of each batch, or of each client if the model learns."""
    most = longest_target(max_length)
    if isinstance(predictor, HybridPredictor):
        return [sum(min(len(words) + 1, most) for words in client) for client in text.messages]
    return batch_targets(text, predictor.vocabulary, max_length=max_length)


def _cut(sizes: Sequence[int]) -> list[slice]:
    """Returns non-empty runs with more than `_POSITIONS_AT_ONCE` targets, except the last."""
    parts, start, targets = [], 0, 0
    for end, size in enumerate(sizes, start=1):
        targets += size
        if targets > _POSITIONS_AT_ONCE or (end == len(sizes) and targets):
            parts.append(slice(start, end))
            start, targets = end, 0
    return parts


def _total(values: np.ndarray, key: np.ndarray, size: int, kind: type) -> np.ndarray:
    """Returns the sums of values with the same key, [size]."""
    totals = np.bincount(key, weights=values, minlength=size)
    return totals if kind is float else totals.astype(np.int64)  # exact below 2^53


def _columns(positions: Positions) -> dict[str, np.ndarray]:
    """Returns the contribution of each position to each sum of `HOST_SUMS`: name -> [n]."""
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
        "reciprocal_ranks": np.where(on_strip, 1.0 / (1.0 + positions.rank), 0.0),
        "impressions": everywhere,
        "impression_matches": on_strip,
        "zero_state_impressions": is_first,
        "zero_state_matches": on_strip & is_first,
        "confidence": positions.confidence,
        "oov_hits_at_1": positions.named & (positions.rank < 1),
        "oov_hits_at_3": positions.named & on_strip,
    }
