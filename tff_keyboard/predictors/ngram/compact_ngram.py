"""A compact, immutable n-gram for a keyboard, read from a file.

The trie and the interpolation follow `kneser_ney.py`. A row is its word in two bytes and one
byte that selects its discounted probability among 256. Only rows with children have a start and a
gamma. The total is about 4 bytes per n-gram; the trained model takes 28. NumPy only.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_keyboard.predictors.ngram.kneser_ney import interpolated

_ABSENT = -1  # the row or the number of an n-gram that the model does not have


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
        """Returns the same model with other ids.

        Args:
          new_ids: [V] the new id of each old id, a permutation.
        """
        unigram = np.empty_like(self.unigram)
        unigram[new_ids] = self.unigram
        tables = []
        new_rows = new_ids  # [rows of the previous order] the new row of each
        for table in self.tables:
            contexts = new_rows[table.context_rows]
            order = np.argsort(contexts)
            new_contexts = np.empty_like(order)  # [contexts] the new number of each context
            new_contexts[order] = np.arange(len(order))
            children = np.diff(table.starts)
            words = new_ids[table.words]
            rows = np.lexsort((words, np.repeat(new_contexts, children)))
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
            new_rows = np.empty_like(rows)
            new_rows[rows] = np.arange(len(rows))
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
        contexts = [-1] * (self.order - 1)
        for word_id in ids[len(ids) - min(len(ids), self.order - 1) :]:
            contexts = self.step(contexts, word_id)
        return contexts

    def step(self, contexts: Sequence[int], word_id: int) -> list[int]:
        """Returns the contexts after one more word.

        Args:
          contexts: [order - 1] numbers of the contexts before the word, as from `contexts`.
          word_id: Id of the word.

        Returns:
          [order - 1] numbers, -1 where no word is known to follow.
        """
        next_contexts = []
        row = word_id  # of the n-gram that ends with this word, in the previous order
        # Scalars of the arrays' own types, because NumPy would convert whole arrays for other
        # types.
        parents = [*contexts[:-1], _ABSENT][: len(self.tables)]
        for table, parent in zip(self.tables, parents, strict=True):
            context = _ABSENT
            if row != _ABSENT:
                context = int(table.context_rows.searchsorted(np.int32(row)))
                if context == len(table.context_rows) or table.context_rows[context] != row:
                    context = _ABSENT
            next_contexts.append(context)
            row = _ABSENT
            if parent != _ABSENT:
                start, end = int(table.starts[parent]), int(table.starts[parent + 1])
                words = table.words[start:end]
                child = int(words.searchsorted(words.dtype.type(word_id)))
                if child < len(words) and words[child] == word_id:
                    row = start + child
        return next_contexts

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


def _find(ascending: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the positions of values in a sorted array without repetitions, -1 if absent."""
    if not len(ascending):
        return np.full(np.shape(values), -1, np.int64)
    rows = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[rows] == values, rows, -1)


def _children(table: CompactTable, contexts: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Returns the rows of (context, word); -1 if the context is -1 or has no such child.

    All binary searches run at once, each within the bounds of its own context.
    """
    if not len(table.words):
        return np.full(np.shape(contexts), -1, np.int64)
    has_context = contexts >= 0
    number = np.where(has_context, contexts, 0)
    low = table.starts[number].astype(np.int64)
    end = table.starts[number + 1].astype(np.int64)
    high = end.copy()
    while np.any(open_ := low < high):
        middle = (low + high) // 2
        less = open_ & (table.words[np.minimum(middle, len(table.words) - 1)] < words)
        low = np.where(less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    child = np.minimum(low, len(table.words) - 1)
    return np.where(has_context & (low < end) & (table.words[child] == words), child, -1)
