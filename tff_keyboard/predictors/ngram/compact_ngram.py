"""A compact, immutable n-gram for a keyboard, read from a file.

The trie and the interpolation follow `kneser_ney.py`. A row is its word in two bytes and one
byte that selects its discounted probability among 256. Only rows with children have a start and a
gamma. The total is about 4 bytes per n-gram; the trained model takes 28. NumPy only.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_keyboard.predictors.ngram.kneser_ney import interpolated


@dataclasses.dataclass(frozen=True)
class CompactTable:
    """One order n >= 2 of the model."""

    # [contexts] int32, ascending: the rows of the previous order (ids, for n = 2) that have
    # children.
    # The position in this list is the context's number.
    context_rows: np.ndarray
    # [contexts + 1] int32; children of context c are rows `starts[c]:starts[c + 1]`
    starts: np.ndarray
    words: np.ndarray  # [rows] uint16 or uint32, ascending within a context
    codes: np.ndarray  # [rows] uint8, position in `values`
    values: np.ndarray  # [256] float32, discounted probabilities
    gamma: np.ndarray  # [contexts] float32, weight of the shorter context

    def first_terms(self, rows: np.ndarray) -> np.ndarray:
        """Returns the discounted probabilities of some rows, float32."""
        return self.values[self.codes[rows]]


class CompactNGram:
    """Probabilities of the next id after any context. Created by `ngram_file.decode`.

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
        """Number of distinct n-grams of each order."""
        return [int(np.count_nonzero(self.unigram)), *(len(table.words) for table in self.tables)]

    def reordered(self, new_ids: np.ndarray) -> "CompactNGram":
        """Returns the same model with other ids. `new_ids` [V] maps old to new ids."""
        unigram = np.empty_like(self.unigram)
        unigram[new_ids] = self.unigram
        tables = []
        moved = new_ids  # new position of each row of the previous order
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
        """Returns the numbers of all contexts in a batch.

        Args:
          ids: [batch, time] int, BOS + words, with PAD on the right.

        Returns:
          [batch, time, order - 1] int64: at m - 1 the number of the context of the last m ids, -1
          if no word is known to follow them.
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
        """Returns the same as `KneserNey.probabilities`: [n, order - 1] -> [n, V] float32."""
        return interpolated(self.unigram, self.tables, nodes)

    def contexts(self, ids: Sequence[int]) -> list[int]:
        """Returns the numbers of the contexts at one position, like `context_nodes`.

        Reads only the last `order - 1` of BOS + words. Returns `order - 1` numbers, -1 if no word
        is known to follow or `ids` is too short.
        """
        found = [-1] * (self.order - 1)
        for word_id in ids[len(ids) - min(len(ids), self.order - 1) :]:
            found = self.step(found, word_id)
        return found

    def step(self, contexts: Sequence[int], word_id: int) -> list[int]:
        """Returns the contexts after one more word, given the contexts before it."""
        found = []
        row = word_id
        # Scalars of the arrays' own types, because NumPy would convert whole arrays for other
        # types.
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
        """Returns [V] float32 after one position, like `probabilities`, for a keyboard."""
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
    """Returns the positions of values in a sorted array without repetitions, -1 if absent."""
    if not len(ascending):
        return np.full(np.shape(wanted), -1, np.int64)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[places] == wanted, places, -1)


def _children(table: CompactTable, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Returns the rows of (context, word); -1 if the context is -1 or has no such child.

    All binary searches run at once, each within the bounds of its own context.
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
