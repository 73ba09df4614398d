"""Adds up the scored positions of a text: sums per client, in total and by slice.

A text is counted in parts (`parts_of`), which are added in order. The parts depend only on the
model's vocabulary and the text, so the sums have the same bits wherever a part is counted. The
counter knows positions only, not the model that scored them.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.counts.positions import Batch, Positions, score
from tff_keyboard.evaluation.counts.slices import FAMILIES, SLICE_SUMS
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.keystrokes import keystrokes_with_selection
from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS, STRIP
from tff_keyboard.evaluation.metrics.own_metrics import CountedMetric
from tff_keyboard.predictors.prefix_index import PrefixIndex

_POSITIONS_AT_ONCE = 2**16  # positions of a part in memory before they are added up: 9 MB

SliceSums = dict[str, dict[str, dict[str, np.ndarray]]]  # family -> slice -> sum -> [clients]


@dataclasses.dataclass(frozen=True)
class Counts:
    """The sums of a model on a text, per client."""

    # Every name of `HOST_SUMS`, and of the user's metrics -> [clients], int64 or float64
    sums: dict[str, np.ndarray]
    # Family -> slice -> every name of `SLICE_SUMS` -> [clients], without slices that have no
    # positions
    slices: SliceSums


@dataclasses.dataclass(frozen=True)
class PartCounts:
    """The counts of a slice of a text's clients, which a `Counter` adds to the others.

    Attributes:
      clients: [n] positions of the clients in the text, increasing.
      counts: The sums of these n clients.
      targets: Number of targets scored, for the progress.
    """

    clients: np.ndarray  # [n] positions of the clients in the text, increasing
    counts: Counts
    targets: int


class Counter:
    """The sums of one model over the positions added so far."""

    def __init__(self, vocabulary: Vocabulary, clients: int, metrics: Sequence[CountedMetric] = ()):
        self._vocabulary = vocabulary
        self._kinds = {**HOST_SUMS, **dict.fromkeys(own_metrics.sum_names(metrics), float)}
        self._num_clients = clients
        self._waiting: list[Positions] = []
        self._sums: dict[str, np.ndarray] = {
            name: np.zeros(clients, kind) for name, kind in self._kinds.items()
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
                column = FAMILIES[family].labels.index(label)
                for name, values in sums.items():
                    self._slices[family][name][part.clients, column] += values

    def counts(self) -> Counts:
        """Returns the counts of all positions so far."""
        self._add_up()
        slices: SliceSums = {}
        for family, table in self._slices.items():
            slices[family] = {
                label: {name: values[:, column] for name, values in table.items()}
                for column, label in enumerate(FAMILIES[family].labels)
                if table["tokens"][:, column].any()
            }
        return Counts(dict(self._sums), slices)

    def _add_up(self) -> None:
        """Adds the waiting positions to the sums per client, and to the slices that they are in."""
        if not self._waiting:
            return
        positions = Positions.concatenate(self._waiting)
        self._waiting = []
        columns = _columns(positions)
        columns |= zip(list(self._kinds)[len(HOST_SUMS) :], positions.own.T, strict=True)
        for name, values in columns.items():
            kind = self._kinds[name]
            self._sums[name] += _total(values, positions.owner, self._num_clients, kind)
        for family, table in self._slices.items():
            slice_ids = FAMILIES[family].index(positions)  # [positions], -1 outside all slices
            inside = slice_ids >= 0
            width = len(FAMILIES[family].labels)
            key = positions.owner[inside] * width + slice_ids[inside]
            for name, values in table.items():
                total = _total(
                    columns[name][inside], key, self._num_clients * width, HOST_SUMS[name]
                )
                values += total.reshape(values.shape)


def parts_of(sizes: Sequence[int]) -> list[slice]:
    """Returns non-empty runs with more than `_POSITIONS_AT_ONCE` targets, except the last.

    Args:
      sizes: Number of targets of each batch, or of each client.
    """
    parts, start, targets = [], 0, 0
    for end, size in enumerate(sizes, start=1):
        targets += size
        if targets > _POSITIONS_AT_ONCE or (end == len(sizes) and targets):
            parts.append(slice(start, end))
            start, targets = end, 0
    return parts


def count_positions(
    vocabulary: Vocabulary,
    scored_positions: Iterable[Positions],
    first_client: int = 0,
    scored: Callable[[int], None] = lambda targets: None,
    metrics: Sequence[CountedMetric] = (),
) -> PartCounts:
    """Counts the positions of one part of a text.

    Args:
      vocabulary: The model's vocabulary.
      scored_positions: The positions of the part, in pieces.
      first_client: Position in the text of the client with `owner` 0.
      scored: Called with the number of targets after each piece.
      metrics: Metrics of the user, which are counted in the positions.
    """
    pieces = []
    for positions in scored_positions:
        pieces.append(positions)
        scored(len(positions))
    joined = Positions.concatenate(pieces)
    clients, owner = np.unique(joined.owner, return_inverse=True)
    counter = Counter(vocabulary, len(clients), metrics)
    counter.add_positions(dataclasses.replace(joined, owner=owner))
    return PartCounts(clients + first_client, counter.counts(), len(joined))


def _total(values: np.ndarray, key: np.ndarray, size: int, kind: type) -> np.ndarray:
    """Returns the sums of values with the same key, [size]."""
    totals = np.bincount(key, weights=values, minlength=size)
    return totals if kind is float else totals.astype(np.int64)  # exact below 2^53


def _columns(positions: Positions) -> dict[str, np.ndarray]:
    """Returns the contribution of each position to each sum of `HOST_SUMS`: name -> [n]."""
    is_word, is_eos, is_oov = positions.is_word, positions.is_eos, positions.is_oov
    is_first = positions.index_in_message == 0
    has_word = is_word | positions.has_name
    on_strip = has_word & (positions.rank < STRIP)
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
        "oov_hits_at_1": positions.has_name & (positions.rank < 1),
        "oov_hits_at_3": positions.has_name & on_strip,
    }
