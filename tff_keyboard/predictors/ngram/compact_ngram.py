"""An n-gram in a few bytes, as a keyboard holds it: read from a file, never changed.

The same trie and the same interpolation as `kneser_ney.py`, but a row is its word in two bytes and
one byte that picks its discounted probability among 256; only rows that something follows have a
start and a gamma. About 4 bytes an n-gram in all, where the model as trained takes 28. NumPy only.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_keyboard.predictors.ngram.kneser_ney import interpolated


@dataclasses.dataclass(frozen=True)
class CompactTable:
    """One order n >= 2 of the model."""

    # [contexts] int32, ascending: the rows of the order before (ids, for n = 2) that something
    # follows. The place in this list is the context's number.
    context_rows: np.ndarray
    # [contexts + 1] int32; children of context c are rows `starts[c]:starts[c + 1]`
    starts: np.ndarray
    words: np.ndarray  # [rows] uint16 or uint32, ascending within a context
    codes: np.ndarray  # [rows] uint8, place in `values`
    values: np.ndarray  # [256] float32, discounted probabilities
    gamma: np.ndarray  # [contexts] float32, weight of the shorter context

    def first_terms(self, rows: np.ndarray) -> np.ndarray:
        """Discounted probabilities of some rows, float32."""
        return self.values[self.codes[rows]]

    @property
    def num_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(getattr(self, field.name).nbytes for field in dataclasses.fields(self))


class CompactNGram:
    """Probabilities of the next id behind any context; `ngram_file.decode` makes it.

    Attributes:
      unigram: [V] float32; 0 for PAD and BOS.
      tables: Orders 2 to `order`.
    """

    def __init__(self, unigram: np.ndarray, tables: Sequence[CompactTable]):
        self.unigram = unigram
        self.tables = tuple(tables)
        self.order = len(self.tables) + 1
        self.vocabulary_size = len(unigram)

    @property
    def num_ngrams(self) -> list[int]:
        """Distinct n-grams of each order."""
        return [int(np.count_nonzero(self.unigram)), *(len(table.words) for table in self.tables)]

    @property
    def num_bytes(self) -> int:
        """Memory of all arrays."""
        return self.unigram.nbytes + sum(table.num_bytes for table in self.tables)

    def reordered(self, new_ids: np.ndarray) -> "CompactNGram":
        """The same model with other ids: `new_ids` [V] is a permutation, the new id of each id."""
        unigram = np.empty_like(self.unigram)
        unigram[new_ids] = self.unigram
        tables = []
        moved = new_ids  # of each row of the order before: where it is now
        for table in self.tables:
            contexts = moved[table.context_rows]
            order = np.argsort(contexts)
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            children = np.diff(table.starts)
            words = new_ids[table.words]
            rows = np.lexsort((words, np.repeat(place, children)))
            tables.append(
                CompactTable(
                    context_rows=contexts[order].astype(table.context_rows.dtype),
                    starts=np.append(0, np.cumsum(children[order])).astype(table.starts.dtype),
                    words=words[rows].astype(table.words.dtype),
                    codes=table.codes[rows],
                    values=table.values,
                    gamma=table.gamma[order],
                )
            )
            moved = np.empty_like(rows)
            moved[rows] = np.arange(len(rows))
        return CompactNGram(unigram, tables)

    def context_nodes(self, ids: np.ndarray) -> np.ndarray:
        """Numbers of all contexts of a batch [batch, time] int, BOS + words, PAD on the right.

        [batch, time, order - 1] int64: at m - 1 the number of the context of the last m ids up to
        here, -1 where nothing is known to follow them.
        """
        batch, time = ids.shape
        nodes = np.full([batch, time, self.order - 1], -1, np.int64)
        if self.order > 1:
            nodes[:, :, 0] = _find(self.tables[0].context_rows, ids)
        for m in range(1, self.order - 1):
            before = nodes[:, :-1, m - 1]
            rows = _children(self.tables[m - 1], before, ids[:, 1:])
            nodes[:, 1:, m] = _find(self.tables[m].context_rows, rows)
        return nodes

    def probabilities(self, nodes: np.ndarray) -> np.ndarray:
        """Probabilities as `KneserNey.probabilities` has them: [n, order - 1] -> [n, V] float32."""
        return interpolated(self.unigram, self.tables, nodes)

    def contexts(self, ids: Sequence[int]) -> list[int]:
        """Numbers of the contexts at one position: `context_nodes` of it, for a keyboard.

        Of BOS + words only the last `order - 1` are read. There are `order - 1` numbers; -1 where
        nothing is known to follow, or `ids` is too short.
        """
        found = [-1] * (self.order - 1)
        for word_id in ids[len(ids) - min(len(ids), self.order - 1) :]:
            found = self.step(found, word_id)
        return found

    def step(self, contexts: Sequence[int], word_id: int) -> list[int]:
        """The contexts (from `contexts` or `step`) one word further on."""
        found = []
        row = word_id
        # Scalars of the arrays' own types: for others NumPy would convert whole arrays.
        numbers = [*contexts[:-1], -1][: len(self.tables)]
        for table, number in zip(self.tables, numbers, strict=True):
            place = -1
            if row >= 0:
                place = int(table.context_rows.searchsorted(np.int32(row)))
                if place == len(table.context_rows) or table.context_rows[place] != row:
                    place = -1
            found.append(place)
            row = -1
            if number >= 0:
                start, end = int(table.starts[number]), int(table.starts[number + 1])
                words = table.words[start:end]
                child = int(words.searchsorted(words.dtype.type(word_id)))
                if child < len(words) and words[child] == word_id:
                    row = start + child
        return found

    def distribution(self, contexts: Sequence[int]) -> np.ndarray:
        """[V] float32 behind one position: `probabilities` of it, for a keyboard."""
        weight = np.float32(1)
        sparse = []
        for table, number in zip(reversed(self.tables), reversed(contexts), strict=True):
            if number < 0:
                continue
            rows = slice(table.starts[number], table.starts[number + 1])
            sparse.append((table.words[rows], weight * table.values[table.codes[rows]]))
            weight = weight * table.gamma[number]
        result = self.unigram * weight
        for words, values in sparse:
            result[words] += values
        return result


def _find(ascending: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Places of values in a sorted list without repeats, -1 where they are not in it."""
    if not len(ascending):
        return np.full(np.shape(wanted), -1, np.int64)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[places] == wanted, places, -1)


def _children(table: CompactTable, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Rows of (context, word); -1 where the context is -1 or has no such child.

    Binary search of all at once, each between the bounds of its own context.
    """
    if not len(table.words):
        return np.full(np.shape(contexts), -1, np.int64)
    known = contexts >= 0
    number = np.where(known, contexts, 0)
    low = table.starts[number].astype(np.int64)
    end = table.starts[number + 1].astype(np.int64)
    high = end.copy()
    while np.any(open_ := low < high):
        middle = (low + high) // 2
        less = open_ & (table.words[np.minimum(middle, len(table.words) - 1)] < words)
        low = np.where(less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    place = np.minimum(low, len(table.words) - 1)
    return np.where(known & (low < end) & (table.words[place] == words), place, -1)
