"""Finds the words that continue a typed prefix, as sorted ranges.

In code-point order the words that start with a prefix are adjacent, and the words of a longer
prefix are in the range of the shorter one. A strip therefore needs two binary searches per key
instead of a scan of the vocabulary, and the keystroke count of a whole batch (`keystrokes.py`) is a
running sum over one range. Plain NumPy, so that a phone runtime can use it.
"""

import bisect
import functools
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary


class PrefixIndex:
    """The words of a vocabulary in sorted order, without special rows.

    >>> from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules
    >>> words = (*SPECIAL_WORDS, "to", "the", "hello", "there")
    >>> index = PrefixIndex(Vocabulary(words, NormalisationRules()))
    >>> index.ids("the")
    array([5, 7], dtype=int32)
    >>> index.ids("x").size, index.ids("").size
    (0, 4)

    Attributes:
      sorted_ids: [words] int32, ids in the order of their words; words = V - 4.
      rank_of_id: [V] int32, position of an id in `sorted_ids`; -1 for special ids.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        order = sorted(range(NUM_SPECIAL, len(vocabulary)), key=vocabulary.words.__getitem__)
        self._sorted_words = [vocabulary.words[i] for i in order]
        self.sorted_ids = np.array(order, np.int32)
        self.rank_of_id = np.full(len(vocabulary), -1, np.int32)
        self.rank_of_id[self.sorted_ids] = np.arange(len(order), dtype=np.int32)

    def range(self, prefix: str) -> tuple[int, int]:
        """Returns `(first, end)`; `sorted_ids[first:end]` are the words starting with `prefix`."""
        return range_of(self._sorted_words, prefix)

    def ids(self, prefix: str) -> np.ndarray:
        """Returns the ids of the words starting with `prefix`, [matches] int32, in sorted order."""
        first, end = self.range(prefix)
        return self.sorted_ids[first:end]

    @functools.cached_property
    def word_lengths(self) -> np.ndarray:
        """Number of characters (code points) of each word, [V] int32; 0 for special ids."""
        lengths = np.array([len(word) for word in self.vocabulary.words], np.int32)
        lengths[:NUM_SPECIAL] = 0
        return lengths

    @functools.cached_property
    def prefix_ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Ranges of every prefix of every word, for counting in bulk, each [words, longest + 1].

        `(first, end)` are int32. Row r is the word `sorted_ids[r]`, and column j is the range of
        words that share its first j characters. After the end of a word the range is the word
        itself.
        """
        words = self._sorted_words
        count = len(words)
        longest = int(self.word_lengths.max(initial=0))
        shared = np.zeros(count, np.int32)  # number of characters shared with the previous word
        for row in range(1, count):
            before, word = words[row - 1], words[row]
            limit = min(len(before), len(word))
            shared[row] = next((j for j in range(limit) if before[j] != word[j]), limit)
        first = np.empty([count, longest + 1], np.int32)
        end = np.empty_like(first)
        rows = np.arange(count, dtype=np.int32)
        for length in range(longest + 1):
            starts = np.flatnonzero((shared < length) | (rows == 0))
            run = np.searchsorted(starts, rows, side="right") - 1
            first[:, length] = starts[run]
            end[:, length] = np.append(starts[1:], count)[run]
        return first, end


def range_of(ascending: Sequence[str], prefix: str) -> tuple[int, int]:
    """Returns `(first, end)` of the words that start with a prefix, in a sorted sequence."""
    length = len(prefix)

    def head(word: str) -> str:
        return word[:length]

    first = bisect.bisect_left(ascending, prefix, key=head)
    return first, bisect.bisect_right(ascending, prefix, lo=first, key=head)
