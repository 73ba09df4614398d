"""How likely people are to type one string for another: P(typed | meant), by a weighted alignment.

    -log P(typed | meant) = smallest sum of costs over all ways to cut both strings into pieces

A piece is up to three letters of the meant word for up to three typed ones. A letter for itself
costs nothing; other pieces cost minus the logarithm of how often people who misspell type them.
Longer pieces are confusions with their context: "ible" for "able", "ei" for "ie", "ll" for "l".
`^` and `$` mark the ends of a word, so that "e$" for "$" is an e left out at the end.

The costs of a language are `slips/LANGUAGE.tsv`, which the lab's `tools/learn_slips.py` learns. A
language without the file, and a letter that is not in it, has costs chosen by hand from its keys,
its vowels and its marks. The model is from Brill and Moore 2000, "An improved error model for
noisy channel spelling correction".
"""

import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tff_keyboard_app.keyboard.languages import Language
from tff_keyboard_app.keyboard.typed_cache import typed_cache
from tff_keyboard_app.keyboard.typo_channel import TypoChannel

START, END = "^", "$"
LONGEST_PIECE = 3  # letters, on either side
BAND = 3  # how many letters the two may be apart

# Costs by hand, and names of those that hold for all letters that no other line has.
ANY_CHANGE, ANY_ADDED, ANY_LEFT_OUT, ANY_SWAP, FIRST_LETTER = (
    "change", "added", "left out", "swapped", "first letter",
)  # fmt: skip
_BY_HAND = {ANY_CHANGE: 7.5, ANY_ADDED: 6.5, ANY_LEFT_OUT: 6.0, ANY_SWAP: 5.0, FIRST_LETTER: 2.5}
_NEIGHBOUR, _VOWEL, _ALIKE, _MARK = 6.5, 4.5, 5.0, 2.5
_DOUBLED, _HALVED, _VOWEL_LEFT_OUT = 5.0, 4.5, 5.5
_SPELLING = 3.5
_SOUND_ALIKE = ("cks", "sz", "gj", "fv", "td", "mn", "bp", "iy", "ea", "uw", "lr", "xc", "qk")
_FOLDER = pathlib.Path(__file__).parent / "slips"

Slips = Mapping[tuple[str, str], float]


def packaged_slips(language: str) -> dict[tuple[str, str], float]:
    """Reads `(meant, typed) -> cost` of a language; empty for one without a table.

    A default has its name as `meant`, and "" as `typed`.
    """
    path = _FOLDER / f"{language}.tsv"
    if not path.is_file():
        return {}
    lines = (line for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    rows = (line.split("\t") for line in lines)
    return {(meant, typed): float(cost) for meant, typed, cost in rows}


def slips_by_hand(language: Language) -> dict[tuple[str, str], float]:
    """Returns the costs that follow from keys, vowels and marks alone."""
    slips = {(name, ""): cost for name, cost in _BY_HAND.items()}

    def lower(meant: str, typed: str, cost: float) -> None:
        slips[meant, typed] = min(cost, slips.get((meant, typed), cost))

    channel = TypoChannel(language)
    for letter, near in channel.neighbours.items():
        slips[letter * 2, letter] = _HALVED
        slips[letter, letter * 2] = _DOUBLED
        for other in near:
            lower(letter, other, _NEIGHBOUR)
    for digit, letters in channel.below.items():
        for letter in letters:
            lower(letter, digit, _NEIGHBOUR)
    for letter in language.vowels:
        slips[letter, ""] = _VOWEL_LEFT_OUT
    for group, cost in [(language.vowels, _VOWEL), *((group, _ALIKE) for group in _SOUND_ALIKE)]:
        for letter in group:
            for other in group.replace(letter, ""):
                lower(letter, other, cost)
    for meant, spellings in language.spellings.items():
        for typed in spellings:
            lower(meant, typed, _SPELLING)
    for plain, letters in language.marked.items():
        for letter in letters:
            lower(letter, plain, _MARK)
            if len(plain) == 1:
                lower(plain, letter, _VOWEL)
            for other in letters.replace(letter, ""):
                lower(letter, other, _VOWEL)
    return slips


class SlipCosts:
    """Costs between a typed string and many words at once.

    Args:
      slips: Costs by `(meant, typed)`; `slips_by_hand`, a packaged table over it, or both.
      letters: All letters that words may have. A typed string with another one is near nothing.

    Attributes:
      codes: Letter -> its number in `coded` words, 1 and up; 0 comes after the end
        of a word.
    """

    def __init__(self, slips: Slips, letters: Iterable[str]):
        alphabet = sorted({*letters} - {START, END})
        self.codes = {letter: code for code, letter in enumerate([START, END, *alphabet], 1)}
        self._base = len(self.codes) + 1
        default = {name: slips[name, ""] for name in _BY_HAND}
        self._defaults = default
        self._first = np.float32(default[FIRST_LETTER])
        self._left_out = np.full(self._base, default[ANY_LEFT_OUT], np.float32)
        self._left_out[:3] = np.inf  # no letter, and the two ends
        self._pieces: dict[tuple[str, int], list[tuple[str, float]]] = {}
        threes: dict[str, int] = {}
        for (meant, typed), cost in slips.items():
            if meant in _BY_HAND or not all(letter in self.codes for letter in meant):
                continue
            if not typed:
                self._left_out[self.codes[meant]] = cost
                continue
            self._pieces.setdefault((typed, len(meant)), []).append((meant, cost))
            if len(meant) == LONGEST_PIECE:
                threes.setdefault(meant, len(threes) + 1)
        # Three letters have a number only if a table has them.
        self._threes = np.zeros(self._base**3, np.int16)
        for three, number in threes.items():
            self._threes[self._number(three)] = number
        self._num_threes = len(threes) + 1
        self._row = typed_cache(self._make_row, maxsize=4_000)

    def coded(self, words: list[str]) -> np.ndarray:
        """Returns the words as columns of letters' codes, with both ends: [longest + 2, words]."""
        marked = [f"{START}{word}{END}" for word in words]
        columns = np.zeros([max(map(len, marked), default=2), len(words)], np.int16)
        for column, word in enumerate(marked):
            columns[: len(word), column] = [self.codes[letter] for letter in word]
        return columns

    def costs(
        self,
        typed: str,
        words: np.ndarray,
        touched: Sequence[Mapping[str, float] | None] = (),
    ) -> np.ndarray:
        """Returns -log P(typed | word) of each of the `coded` words: [words] float32.

        Infinite for words that are more than `BAND` letters away. `touched` has, for each typed
        letter, the keys that its touch may have meant (`TouchModel.ratios`).
        """
        size, count = words.shape
        infinite = np.full(count, np.inf, np.float32)
        if not all(letter in self.codes for letter in typed):
            return infinite
        pieces = self._pieces_of(words)
        typed = f"{START}{typed}{END}"
        start = np.full([size + 1, count], np.inf, np.float32)
        start[0] = 0.0
        lines = [start]
        for j in range(1, len(typed) + 1):
            line = np.full([size + 1, count], np.inf, np.float32)
            low, high = max(0, j - BAND), min(size, j + BAND)
            for typed_size in range(1, min(LONGEST_PIECE, j) + 1):
                before = lines[j - typed_size]
                is_first = j - typed_size == 1
                for meant_size in range(LONGEST_PIECE + 1):
                    row = self._row(typed[j - typed_size : j], meant_size)
                    first = max(low - meant_size, 0)  # where pieces of the words begin
                    last = high - meant_size
                    if row is None or last < first:
                        continue
                    if meant_size == typed_size == 1 and touched and 1 < j < len(typed):
                        row = self._with_touch(row, touched[j - 2])
                    if meant_size:
                        steps = row[pieces[meant_size][first : last + 1]]
                    else:
                        steps = np.full([last + 1 - first, count], row[0])
                    if is_first and first <= 1 <= last:
                        steps[1 - first] += self._first * (steps[1 - first] > 0)
                    steps += before[first : last + 1]
                    end = line[first + meant_size : last + 1 + meant_size]
                    np.minimum(end, steps, out=end)
            for i in range(max(low, 1), high + 1):  # letters left out
                step = self._left_out[words[i - 1]]
                if i == 2 and j == 1:
                    step = step + self._first
                np.minimum(line[i], line[i - 1] + step, out=line[i])
            lines.append(line)
        lengths = (words > 0).sum(axis=0)
        return lines[-1][lengths, np.arange(count)]

    def _with_touch(self, row: np.ndarray, touch: Mapping[str, float] | None) -> np.ndarray:
        """Lowers the costs of the letters that a touch may have meant."""
        if not touch:
            return row
        row = row.copy()
        for letter, ratio in touch.items():
            code = self.codes.get(letter)
            if code is not None:
                row[code] = min(row[code], -math.log(ratio))
        return row

    def _pieces_of(self, words: np.ndarray) -> list[np.ndarray]:
        """Numbers of the pieces of 0 to 3 letters that begin at each letter."""
        ones = words.astype(np.intp)
        twos = ones[:-1] * self._base + ones[1:]
        threes = self._threes[twos[:-1] * self._base + ones[2:]]
        return [ones, ones, twos, threes]

    def _make_row(self, typed: str, meant_size: int) -> np.ndarray | None:
        """Returns the cost of typing `typed` for each meant piece of a size, by number.

        A piece that the table does not have costs the default of its kind of slip, or infinity.
        Returns None if no piece of `meant_size` letters is ever typed so.
        """
        pieces = self._pieces.get((typed, meant_size), [])
        if meant_size == 0:
            if typed in (START, END) or len(typed) > 1:
                return None
            return np.array([dict(pieces).get("", self._defaults[ANY_ADDED])], np.float32)
        sizes = (0, self._base, self._base**2, self._num_threes)
        row = np.full(sizes[meant_size], np.inf, np.float32)
        if meant_size == 1 and len(typed) == 1:
            if typed not in (START, END):
                row[3:] = self._defaults[ANY_CHANGE]
            row[self.codes[typed]] = 0.0
        if meant_size == 2 and len(typed) == 2 and typed[0] != typed[1]:
            if START not in typed and END not in typed:
                row[self._number(typed[::-1])] = self._defaults[ANY_SWAP]
        elif not pieces and not (meant_size == 1 and len(typed) == 1):
            return None
        for meant, cost in pieces:
            number = self._number(meant)
            row[self._threes[number] if meant_size == LONGEST_PIECE else number] = cost
        return row

    def _number(self, piece: str) -> int:
        """Returns the number of a piece of letters, in the base of the alphabet's size."""
        number = 0
        for letter in piece:
            number = number * self._base + self.codes[letter]
        return number
