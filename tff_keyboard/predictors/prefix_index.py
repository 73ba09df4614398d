"""Which words continue a typed prefix, by sorted ranges.

Sorted by code points, the words that start with a prefix stand side by side, and those of a longer
prefix inside the range of the shorter one. So a strip needs two binary searches a key instead of a
scan over the vocabulary, and the keystroke count of a whole batch (`keystrokes.py`) a running sum
over one range. Plain NumPy, so that a phone runtime can use it.
"""

import bisect
import functools
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary


class PrefixIndex:
    """The words of a vocabulary in sorted order; special rows are left out.

    >>> from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules
    >>> words = (*SPECIAL_WORDS, "to", "the", "hello", "there")
    >>> index = PrefixIndex(Vocabulary(words, NormalisationRules()))
    >>> index.ids("the")
    array([5, 7], dtype=int32)
    >>> index.ids("x").size, index.ids("").size
    (0, 4)

    Attributes:
      sorted_ids: [words] int32, ids in the order of their words; words = V - 4.
      rank_of_id: [V] int32, the place of an id in `sorted_ids`; -1 for special ids.
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        order = sorted(range(NUM_SPECIAL, len(vocabulary)), key=vocabulary.words.__getitem__)
        self._sorted_words = [vocabulary.words[i] for i in order]
        self.sorted_ids = np.array(order, np.int32)
        self.rank_of_id = np.full(len(vocabulary), -1, np.int32)
        self.rank_of_id[self.sorted_ids] = np.arange(len(order), dtype=np.int32)

    def range(self, prefix: str) -> tuple[int, int]:
        """`(first, end)` such that `sorted_ids[first:end]` are the words starting with `prefix`."""
        return range_of(self._sorted_words, prefix)

    def ids(self, prefix: str) -> np.ndarray:
        """[matches] int32, ids of the words starting with `prefix`, in sorted order."""
        first, end = self.range(prefix)
        return self.sorted_ids[first:end]

    @functools.cached_property
    def word_lengths(self) -> np.ndarray:
        """[V] int32, characters (code points) of each word; 0 for special ids."""
        lengths = np.array([len(word) for word in self.vocabulary.words], np.int32)
        lengths[:NUM_SPECIAL] = 0
        return lengths

    @functools.cached_property
    def prefix_ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Ranges of every prefix of every word, for counting in bulk: each [words, longest + 1].

        `(first, end)` are int32: row r is the word `sorted_ids[r]`, column j the range of words
        that share its first j characters. Behind the end of a word the range is the word itself.
        """
        words = self._sorted_words
        count = len(words)
        longest = int(self.word_lengths.max(initial=0))
        shared = np.zeros(count, np.int32)  # characters shared with the word before
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
    """`(first, end)` of the words that start with a prefix, among words in order."""
    length = len(prefix)

    def head(word: str) -> str:
        return word[:length]

    first = bisect.bisect_left(ascending, prefix, key=head)
    return first, bisect.bisect_right(ascending, prefix, lo=first, key=head)
