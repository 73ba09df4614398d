"""The facts in a data card about one population, without text or user names."""

import bisect
import collections
import itertools
from collections.abc import Sequence

from tff_keyboard.data.store.example_bytes import WordBytes
from tff_keyboard.data.store.store_card import Histogram, PopulationFacts, rate


class PopulationStatistics:
    """Sums over the clients of a population. Lengths are in words.

    A message of n words has n + 1 targets, including its end. With `is_cut`, targets beyond
    `max_length` are not trained on. With `tells_counts`, the facts include OOV rates for a
    vocabulary chosen by counts alone.
    """

    def __init__(self, max_length: int, *, is_cut: bool, tells_counts: bool):
        self._max_length = max_length
        self._is_cut = is_cut
        self._tells_counts = tells_counts
        self._clients = 0
        self._oov_words = 0
        self._oov_words_by_counts = 0
        self._masks = 0
        self._words_per_message: collections.Counter[int] = collections.Counter()
        self._words_per_client: collections.Counter[int] = collections.Counter()
        self._messages_per_client: collections.Counter[int] = collections.Counter()

    def add_client(self, lengths: Sequence[int], counted: WordBytes) -> None:
        """Adds a client, given its messages' numbers of words and the counts from their lookup."""
        self._clients += 1
        self._oov_words += counted.oov
        self._oov_words_by_counts += counted.oov_by_counts
        self._masks += counted.masks
        self._words_per_message.update(lengths)
        self._words_per_client[sum(lengths)] += 1
        self._messages_per_client[len(lengths)] += 1

    def as_json(self) -> PopulationFacts:
        """Returns counts, rates in [0, 1] and histograms with bins [1, 1], [2, 3], [4, 7], ..."""
        messages = self._words_per_message.total()
        words = sum(length * times for length, times in self._words_per_message.items())
        long_messages = truncated_words = 0
        for length, times in self._words_per_message.items():
            long_messages += times * (length + 1 > self._max_length)
            truncated_words += times * max(length - self._max_length, 0)
        truncated_messages = long_messages if self._is_cut else 0
        truncated_words = truncated_words if self._is_cut else 0
        facts: PopulationFacts = {
            "clients": self._clients,
            "messages": messages,
            "words": words,
            "oov_words": self._oov_words,
            "oov_rate": rate(self._oov_words, words),
            "masks": self._masks,
            "long_messages": long_messages,
            "truncated_messages": truncated_messages,
            "truncated_messages_rate": rate(truncated_messages, messages),
            "truncated_words": truncated_words,
            "truncated_words_rate": rate(truncated_words, words),
            "words_per_message": _histogram(self._words_per_message),
            "words_per_client": _histogram(self._words_per_client),
            "messages_per_client": _histogram(self._messages_per_client),
        }
        if self._tells_counts:
            facts["oov_words_by_counts"] = self._oov_words_by_counts
            facts["oov_rate_by_counts"] = rate(self._oov_words_by_counts, words)
        return facts


def _histogram(counts: collections.Counter[int]) -> Histogram:
    """Returns minimum, median and maximum, and the number of values in power-of-two bins."""
    if not counts:
        return {"min": 0, "median": 0, "max": 0, "bins": {}}
    bins: collections.Counter[int] = collections.Counter()
    for value, times in counts.items():
        bins[value.bit_length()] += times
    values = sorted(counts)
    totals = list(itertools.accumulate(counts[value] for value in values))
    median = values[bisect.bisect_left(totals, (totals[-1] + 1) // 2)]
    ends = {f"{1 << (n - 1)}-{(1 << n) - 1}" if n else "0": bins[n] for n in sorted(bins)}
    return {"min": min(counts), "median": median, "max": max(counts), "bins": ends}
