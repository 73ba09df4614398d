"""What a data card says of one population; no text, no user."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from tff_keyboard.data import vocabulary
from tff_keyboard.data.store.word_choice import WordChoice


class PopulationStatistics:
    """Sums over the clients of a population.

    Lengths are in words. A message of n words has n + 1 targets, its end included.
    """

    def __init__(self, max_length: int, *, is_cut: bool, choice: WordChoice | None):
        """Starts at zero.

        Args:
          max_length: Targets of a sequence in training.
          is_cut: Whether what a message has beyond is left out of training.
          choice: How the vocabulary came about, None where it was given.
        """
        self._max_length = max_length
        self._is_cut = is_cut
        self._choice = choice
        self._oov_words_by_counts = 0
        self._long_messages = 0
        self._clients = 0
        self._messages = 0
        self._words = 0
        self._oov_words = 0
        self._masks = 0
        self._truncated_messages = 0
        self._truncated_words = 0
        self._words_per_message: collections.Counter[int] = collections.Counter()
        self._words_per_client: collections.Counter[int] = collections.Counter()
        self._messages_per_client: collections.Counter[int] = collections.Counter()

    def add_client(self, messages: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Adds a client: tokens of each message joined by spaces, and their ids."""
        self._clients += 1
        self._messages += len(messages)
        words_of_client = 0
        for tokens, row in zip(messages, ids, strict=True):
            words_of_client += len(row)
            self._oov_words += sum(1 for word_id in row if word_id == vocabulary.OOV)
            if self._choice:
                self._oov_words_by_counts += self._choice.oov_by_counts(tokens.split(" "), row)
            if "<" in tokens:
                self._masks += sum(1 for word in tokens.split(" ") if vocabulary.is_mask(word))
            is_long = len(row) + 1 > self._max_length
            self._long_messages += is_long
            if self._is_cut:
                self._truncated_messages += is_long
                self._truncated_words += max(len(row) - self._max_length, 0)
            self._words_per_message[len(row)] += 1
        self._words += words_of_client
        self._words_per_client[words_of_client] += 1
        self._messages_per_client[len(messages)] += 1

    def as_json(self) -> dict[str, Any]:
        """Counts, rates in [0, 1] and histograms with bins [1, 1], [2, 3], [4, 7], ..."""
        return {
            "clients": self._clients,
            "messages": self._messages,
            "words": self._words,
            "oov_words": self._oov_words,
            "oov_rate": _rate(self._oov_words, self._words),
            **(
                {
                    "oov_words_by_counts": self._oov_words_by_counts,
                    "oov_rate_by_counts": _rate(self._oov_words_by_counts, self._words),
                }
                if self._choice
                else {}
            ),
            "masks": self._masks,
            "long_messages": self._long_messages,
            "truncated_messages": self._truncated_messages,
            "truncated_messages_rate": _rate(self._truncated_messages, self._messages),
            "truncated_words": self._truncated_words,
            "truncated_words_rate": _rate(self._truncated_words, self._words),
            "words_per_message": _histogram(self._words_per_message),
            "words_per_client": _histogram(self._words_per_client),
            "messages_per_client": _histogram(self._messages_per_client),
        }


def _rate(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


def _histogram(counts: collections.Counter[int]) -> dict[str, Any]:
    """Minimum, median, maximum, and how many values lie in each bin of powers of two."""
    if not counts:
        return {"min": 0, "median": 0, "max": 0, "bins": {}}
    bins: collections.Counter[int] = collections.Counter()
    for value, times in counts.items():
        bins[value.bit_length()] += times
    half, seen, median = (sum(counts.values()) + 1) // 2, 0, 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= half:
            median = value
            break
    return {
        "min": min(counts),
        "median": median,
        "max": max(counts),
        "bins": {
            f"{1 << (bits - 1)}-{(1 << bits) - 1}" if bits else "0": bins[bits]
            for bits in sorted(bins)
        },
    }
