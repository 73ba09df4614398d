"""Finds the words of a lexicon that may be meant by a typed string, with P(typed | word).

Of 100,000 words, two filters leave few for the costs of `slip_costs.py`. The first removes words
with too many other letters, which it counts on masks of one bit per letter. The second removes
words that are too many edits away. An edit is a letter changed, added or left out, or two letters
swapped. The bit-parallel method of Hyyrö 2003, "A bit-vector algorithm for computing Levenshtein
and Damerau edit distances", counts the edits of all words at once, and is exact. A key takes 1 to 3
ms.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from tff_keyboard_app.keyboard.slip_costs import BAND, SlipCosts

SHORTEST = 2  # letters
LONGEST = 24
MAX_COST = 16.0
_MAX_WORDS = 250  # whose costs are compared
_MAX_OTHER_LETTERS = (0, 0, 2, 3, 4, 4, 4, 5)  # that one has and the other has not, by length
_BITS_OF_HALF = np.array([number.bit_count() for number in range(2**16)], np.uint8)


class SpellingIndex:
    """A lexicon that can be searched by a typed string.

    Args:
      words: Lower-case words, the most probable first. Words of more than 24 letters are left out.
      costs: Costs of slips. Its letters must include the letters of the words.
    """

    def __init__(self, words: Iterable[str], costs: SlipCosts):
        self._costs = costs
        ranked = [word for word in words if SHORTEST <= len(word) <= LONGEST]
        self._ranks = np.array(sorted(range(len(ranked)), key=lambda rank: len(ranked[rank])))
        sorted_words = [ranked[rank] for rank in self._ranks]
        self._words = sorted_words
        lengths = np.array([len(word) for word in sorted_words], np.int64)
        self._first_of_length = np.searchsorted(lengths, np.arange(LONGEST + BAND + 2))
        self._letters = _coded(sorted_words, self._first_of_length, costs.codes)
        self._masks = np.zeros(len(sorted_words), np.uint32)
        for letters in self._letters:
            self._masks |= _bits(letters)

    def near(
        self, typed: str, touched: Sequence[Mapping[str, float] | None] = ()
    ) -> dict[str, float]:
        """Returns word -> P(typed | word) for the words within `edits_allowed`, without `typed`.

        `touched` is what `SlipCosts.costs` takes.
        """
        size = len(typed)
        if not SHORTEST <= size <= LONGEST or not all(x in self._costs.codes for x in typed):
            return {}
        max_edits = edits_allowed(size)
        codes = np.array([self._costs.codes[letter] for letter in typed], np.int16)
        rows = self._with_like_letters(codes, max_edits)
        edits = self._edits(codes, rows)
        close = np.flatnonzero((edits <= max_edits) & (edits > 0))
        if len(close) > _MAX_WORDS:
            order = np.lexsort((self._ranks[rows[close]], edits[close]))
            close = close[np.sort(order[:_MAX_WORDS])]
        return self.likely(typed, [self._words[row] for row in rows[close]], touched)

    def likely(
        self,
        typed: str,
        words: Collection[str],
        touched: Sequence[Mapping[str, float] | None] = (),
    ) -> dict[str, float]:
        """Returns word -> P(typed | word) for those words that can be meant."""
        candidates = [
            word for word in words if word != typed and set(word) <= self._costs.codes.keys()
        ]
        if not candidates:
            return {}
        costs = self._costs.costs(typed, self._costs.coded(candidates), touched)
        return {
            word: math.exp(-cost)
            for word, cost in zip(candidates, costs.tolist(), strict=True)
            if cost <= MAX_COST
        }

    def _with_like_letters(self, codes: np.ndarray, max_edits: int) -> np.ndarray:
        """Returns the rows of words with about the same length and nearly the same letters."""
        first, last = self._first_of_length[
            [max(0, len(codes) - max_edits), len(codes) + max_edits + 1]
        ]
        other = self._masks[first:last] ^ np.bitwise_or.reduce(_bits(codes))
        count = _BITS_OF_HALF[other & 0xFFFF]
        count += _BITS_OF_HALF[other >> 16]
        few = _MAX_OTHER_LETTERS[min(len(codes), len(_MAX_OTHER_LETTERS) - 1)]
        return np.flatnonzero(count <= few) + first

    def _edits(self, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns restricted Damerau-Levenshtein distances of rows that are sorted by length."""
        size = len(codes)
        position_bits = np.zeros(len(self._costs.codes) + 1, np.uint32)
        for position, code in enumerate(codes.tolist()):
            position_bits[code] |= np.uint32(1 << position)
        edits = np.full(len(rows), size, np.int16)
        plus = np.full(len(rows), (1 << size) - 1, np.uint32)  # cells one more than the one above
        minus = np.zeros(len(rows), np.uint32)  # cells one less
        diagonal = np.zeros(len(rows), np.uint32)  # cells equal to the one before on the diagonal
        last_here = np.zeros(len(rows), np.uint32)
        one, last_shift = np.uint32(1), np.uint32(size - 1)
        all_letters = self._letters[:, rows]
        is_over = np.searchsorted(self._first_of_length, rows, "right") - 1  # lengths
        for column in range(int(is_over[-1]) if len(rows) else 0):
            # Shorter words are done; they are the first ones.
            begin = int(np.searchsorted(is_over, column, "right"))
            here = position_bits[all_letters[column, begin:]]
            p, m, d = plus[begin:], minus[begin:], diagonal[begin:]
            swapped = ((~d & here) << one) & last_here[begin:]
            d = (((here & p) + p) ^ p) | here | m | swapped
            up, down = m | ~(d | p), d & p
            edits[begin:] += ((up >> last_shift) & one).astype(np.int16)
            edits[begin:] -= ((down >> last_shift) & one).astype(np.int16)
            up = (up << one) | one
            plus[begin:] = (down << one) | ~(d | up)
            minus[begin:] = up & d
            diagonal[begin:] = d
            last_here[begin:] = here
        return edits


def edits_allowed(letters: int) -> int:
    """Returns the largest number of edits between a typed string and the meant word."""
    return 1 if letters < 4 else 2 if letters < 7 else 3


def _coded(words: list[str], first_of_length: np.ndarray, codes: dict[str, int]) -> np.ndarray:
    """Returns codes of letters, uint8 [longest, words]; 0 after the end of a word."""
    alphabet = sorted(codes)
    letter_codes = np.array([codes[letter] for letter in alphabet], np.uint8)
    code_points = np.array(alphabet, dtype="U1").view(np.uint32)
    columns = np.zeros([LONGEST, len(words)], np.uint8)
    for size in range(SHORTEST, LONGEST + 1):
        first, last = first_of_length[size], first_of_length[size + 1]
        letters = np.frombuffer("".join(words[first:last]).encode("utf-32-le"), np.uint32)
        of_size = letter_codes[np.searchsorted(code_points, letters)]
        columns[:size, first:last] = of_size.reshape(last - first, size).T
    return columns


def _bits(codes: np.ndarray) -> np.ndarray:
    """Returns a mask with one bit for each code. Codes may share a bit. Code 0 has no bit."""
    bits = np.left_shift(np.uint32(1), codes.astype(np.uint32) & np.uint32(31))
    return np.where(codes > 0, bits, np.uint32(0))
