"""An n-gram model with interpolated modified Kneser-Ney smoothing.

    p(w | h) = max(c(h w) - D(c(h w)), 0) / sum_v c(h v)  +  gamma(h) p(w | h')
    gamma(h) = (D_1 N_1(h) + D_2 N_2(h) + D_3 N_3+(h)) / sum_v c(h v)

h' is the context h without its oldest word, c are the adjusted counts of `ngram_counts.py`, and
N_i(h) is the number of words seen i times after h. The discounts of each order are D_j = j - (j +
1) Y n_(j+1) / n_j with Y = n_1 / (n_1 + 2 n_2), where n_j is the number of n-grams seen j times.
Unigrams are interpolated with the uniform distribution over all ids that can be predicted, all but
PAD and BOS. The p of a context that was never seen is the p of the shorter context.

Source: Chen and Goodman 1998, section 3, https://dash.harvard.edu/handle/1/25104739 (their
"modified Kneser-Ney", eq. 26). If the counts of counts of a small text give no valid discount, 0.5,
1 and 1.5 are used, as in KenLM's `--discount_fallback`.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL, PAD
from tff_keyboard.predictors.ngram.ngram_counts import Level, count_ngrams

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)


def discounts(counts: np.ndarray) -> np.ndarray:
    """Returns `[0, D_1, D_2, D_3]` from the adjusted counts of one order.

    >>> discounts(np.array([1, 1, 1, 1, 2, 2, 3, 4])).tolist()
    [0.0, 0.5, 1.25, 1.0]
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6).astype(np.float64)
    estimates = np.zeros(3)
    if np.all(n[1:5] > 0):  # n_4 = 0 would discount 3 fully, to less than words seen twice
        y = n[1] / (n[1] + 2 * n[2])
        j = np.arange(1, 4)
        estimates = j - (j + 1) * y * n[2:5] / n[1:4]
    valid = np.all(estimates > 0) and np.all(estimates < [1, 2, 3])
    return np.concatenate([[0.0], estimates if valid else FALLBACK_DISCOUNTS])


@dataclasses.dataclass(frozen=True)
class NGramTable:
    """One order n >= 2 of the model: the words after each context of n - 1 words."""

    # [contexts + 1] int64; children of context c are rows `starts[c]:starts[c + 1]`
    starts: np.ndarray
    words: np.ndarray  # [rows] int32, ascending within a context
    discounted: np.ndarray  # [rows] float32, the first term of p
    gamma: np.ndarray  # [contexts] float32, weight of the shorter context; 1 without children

    def first_terms(self, rows: np.ndarray) -> np.ndarray:
        """Returns `discounted` of some rows, for `interpolated`."""
        return self.discounted[rows]

    def keys(self, vocabulary_size: int) -> np.ndarray:
        """Returns context * V + word for each row, [rows] int64, ascending."""
        contexts = np.repeat(np.arange(len(self.gamma)), np.diff(self.starts))
        return contexts * vocabulary_size + self.words


class KneserNey:
    """Probabilities of the next id after any context. Created by `train`.

    Attributes:
      order: Length of the longest n-grams; 1 is a unigram model.
      unigram: [V] float32, p(w) without context; 0 for PAD and BOS.
      tables: Orders 2 to `order`.
    """

    def __init__(self, unigram: np.ndarray, tables: Sequence[NGramTable]):
        self.unigram = unigram
        self.tables = tuple(tables)
        self.order = len(self.tables) + 1
        self.vocabulary_size = len(unigram)
        self._keys = [table.keys(self.vocabulary_size) for table in self.tables]

    @classmethod
    def train(
        cls, messages: Iterable[np.ndarray], *, vocabulary_size: int, order: int = 5
    ) -> "KneserNey":
        """Counts and smooths messages, ids [words] each, without BOS and EOS.

        Raises `ValueError` if V is not > 4, the order is not >= 1, or there are no messages.
        """
        if vocabulary_size <= NUM_SPECIAL:
            raise ValueError(
                f"`vocabulary_size` must be > {NUM_SPECIAL} (the special ids), "
                f"got {vocabulary_size}."
            )
        levels = count_ngrams(messages, vocabulary_size=vocabulary_size, order=order)
        contexts = [1, *(len(level.words) for level in levels[:-1])]
        tables = [_smooth(level, count) for level, count in zip(levels, contexts, strict=True)]
        uniform = np.full(vocabulary_size, 1 / (vocabulary_size - 2))  # without PAD and BOS
        uniform[[PAD, BOS]] = 0
        unigram = tables[0].discounted + tables[0].gamma * uniform
        return cls(unigram.astype(np.float32), tables[1:])

    @property
    def num_ngrams(self) -> list[int]:
        """Number of distinct n-grams of each order."""
        return [int(np.count_nonzero(self.unigram)), *(len(table.words) for table in self.tables)]

    def context_nodes(self, ids: np.ndarray) -> np.ndarray:
        """Returns the trie nodes of all contexts in a batch.

        Args:
          ids: [batch, time], BOS + words, with PAD on the right.

        Returns:
          [batch, time, order - 1] int64: at m - 1 the node of the last m ids, -1 if they never
          occurred together.
        """
        batch, time = ids.shape
        nodes = np.full([batch, time, self.order - 1], -1, np.int64)
        if self.order == 1:
            return nodes
        nodes[:, :, 0] = ids
        for m, keys in enumerate(self._keys[:-1], start=1):
            if not len(keys):  # no message is this long
                break
            before = nodes[:, :-1, m - 1]
            query_keys = before * self.vocabulary_size + ids[:, 1:]
            row = np.minimum(np.searchsorted(keys, query_keys), len(keys) - 1)
            nodes[:, 1:, m] = np.where((before >= 0) & (keys[row] == query_keys), row, -1)
        return nodes

    def probabilities(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the distributions after [n, order - 1] nodes of `context_nodes`, [n, V] float32.

        Each row sums to 1; PAD and BOS have 0.
        """
        return interpolated(self.unigram, self.tables, nodes)


class InterpolatedTable(Protocol):
    """One order of an interpolated model: a `NGramTable`, or a table with fewer bytes per row.

    `starts` [contexts + 1] is the first row of each context in `words` [rows], the last word of
    each n-gram. `gamma` [contexts] is the weight that a context gives to the next shorter one.
    """

    @property
    def starts(self) -> np.ndarray: ...
    @property
    def words(self) -> np.ndarray: ...
    @property
    def gamma(self) -> np.ndarray: ...

    def first_terms(self, rows: np.ndarray) -> np.ndarray:
        """Returns the discounted probability of each of `rows`, float32."""
        ...


def interpolated(
    unigram: np.ndarray, tables: Sequence[InterpolatedTable], nodes: np.ndarray
) -> np.ndarray:
    """Returns the distributions after contexts of every length, [n, V] float32.

    p = unigram * product of all gammas + sum over orders of first term * product of the gammas of
    longer contexts.

    Args:
      unigram: [V] float32.
      tables: Orders 2 and higher.
      nodes: [n, len(tables)], at m - 1 the position in `gamma` of the context of m words, -1 if it
        is unknown.
    """
    longer = np.ones(len(nodes), np.float32)
    sparse = []
    for m in reversed(range(len(tables))):
        sparse.append((m, longer))
        has_context = nodes[:, m] >= 0
        gamma = np.ones(len(nodes), np.float32)
        gamma[has_context] = tables[m].gamma[nodes[has_context, m]]
        longer = longer * gamma
    result = np.multiply.outer(longer, unigram)
    for m, weight in sparse:
        table = tables[m]
        rows = np.flatnonzero(nodes[:, m] >= 0)
        first = table.starts[nodes[rows, m]]
        sizes = table.starts[nodes[rows, m] + 1] - first
        # The rows of all children of all contexts: first[0], first[0] + 1, ..., first[1], ...
        skipped = np.cumsum(sizes) - sizes
        children = np.arange(sizes.sum()) + np.repeat(first - skipped, sizes)
        owner = np.repeat(rows, sizes)
        result[owner, table.words[children]] += weight[owner] * table.first_terms(children)
    return result


def _smooth(level: Level, num_contexts: int) -> NGramTable:
    """Returns the discounted probabilities and the gammas of one order."""
    counts = level.counts
    totals = np.bincount(level.parents, weights=counts, minlength=num_contexts)
    discount = discounts(counts)[np.minimum(counts, 3)]
    freed = np.bincount(level.parents, weights=discount, minlength=num_contexts)
    seen = totals > 0
    gamma = np.divide(freed, totals, out=np.ones(num_contexts), where=seen)
    total_of_row = np.where(seen, totals, 1.0)[level.parents]
    children = np.bincount(level.parents, minlength=num_contexts)
    return NGramTable(
        starts=np.concatenate([[0], np.cumsum(children)]).astype(np.int64),
        words=level.words,
        discounted=((counts - discount) / total_of_row).astype(np.float32),
        gamma=gamma.astype(np.float32),
    )
