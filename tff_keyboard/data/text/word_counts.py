"""Counts of words in bounded memory."""

from __future__ import annotations

import collections
from collections.abc import Iterable

MAX_DISTINCT_WORDS = 2_000_000  # about 250 MB of short strings


class WordCounts:
    """A counter that forgets its rarest words when it grows too large.

    As long as there are at most `max_distinct` distinct words, counts are exact.
    Beyond that, a word is lost only if it was among the rarest when the table was
    full; the frequent words of a vocabulary are not.

    >>> counts = WordCounts(max_distinct=2)
    >>> counts.add(["a", "a", "b", "c"])
    >>> dict(counts.counts), counts.forgotten
    ({'a': 2}, 2)

    Attributes:
      counts: Word to count.
      forgotten: Distinct words dropped so far; 0 means that counts are exact.
    """

    def __init__(self, max_distinct: int = MAX_DISTINCT_WORDS):
        self.counts: collections.Counter[str] = collections.Counter()
        self.forgotten = 0
        self._max_distinct = max_distinct

    def add(self, words: Iterable[str]) -> None:
        """Counts each word once more."""
        self.counts.update(words)
        threshold = 1
        while len(self.counts) > self._max_distinct:
            kept = {word: count for word, count in self.counts.items() if count > threshold}
            self.forgotten += len(self.counts) - len(kept)
            self.counts = collections.Counter(kept)
            threshold += 1
