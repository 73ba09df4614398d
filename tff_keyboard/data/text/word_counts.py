"""Counts of words, and of the users that typed them, in bounded memory."""

import collections
from collections.abc import Iterable

MAX_DISTINCT_WORDS = 2_000_000  # about 350 MB of short strings


class WordCounts:
    """Two counters that drop their rarest words when they grow too large.

    With at most `max_distinct` distinct words, counts are exact. With more, a word is lost only if
    it was among the rarest when the table was full, so the frequent words of a vocabulary are kept.
    Counts are never too high, so a rule that requires a number of users always holds.

    >>> counts = WordCounts(max_distinct=2)
    >>> counts.add_client(["a", "a", "b", "c"])
    >>> dict(counts.counts), dict(counts.clients), counts.forgotten
    ({'a': 2}, {'a': 1}, 2)

    Attributes:
      counts: Word -> number of times it was typed.
      clients: Word -> number of users that typed it; the same words.
      forgotten: Number of distinct words dropped so far; 0 means that counts are exact.
    """

    def __init__(self, max_distinct: int = MAX_DISTINCT_WORDS):
        self.counts: collections.Counter[str] = collections.Counter()
        self.clients: collections.Counter[str] = collections.Counter()
        self.num_clients = 0
        self.forgotten = 0
        self._max_distinct = max_distinct

    def add_client(self, words: Iterable[str]) -> None:
        """Counts all words of a user. Call it once per user."""
        words = list(words)
        self.num_clients += 1
        self.counts.update(words)
        self.clients.update(set(words))
        threshold = 1
        while len(self.counts) > self._max_distinct:
            remaining = {word: count for word, count in self.counts.items() if count > threshold}
            self.forgotten += len(self.counts) - len(remaining)
            self.counts = collections.Counter(remaining)
            self.clients = collections.Counter({word: self.clients[word] for word in remaining})
            threshold += 1
