"""Follows the trie of new words from the sums of groups of devices, without any network.

    group 1   cells of the empty prefix      -> prefixes of n letters, and words of fewer letters
    group 2   cells of these prefixes        -> prefixes of 2 n letters, and more words
    ...       until no prefix is alive, or the groups are used up

A cell stays if its count, with noise if there is any, reaches the threshold:

    threshold = min_devices + margin,    margin = stddev Phi^-1(1 - 0.01 / (cells in all groups))

Without noise, a cell that stays was typed on at least `min_devices` devices of its group. With
noise, the margin makes this true for all cells of the whole search together with a probability of
at least 99 %. The threshold only reads counts that already have noise, so it costs no privacy.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary
from tff_keyboard.storage.errors import UsageError
from tff_keyboard_fleet.wire import word_cells
from tff_keyboard_fleet.wire.plan import MAX_LENGTH, NewWords

# Share of the vocabulary's words with a letter that is not in the alphabet
_RARE_LETTER = 0.002
_ERROR = 0.01  # chance that a cell of too few devices stays, in a search with noise


def alphabet_of(vocabulary: Vocabulary) -> str:
    """Returns the letters of new words: those that are not rare in the words of a vocabulary.

    Also "'" and "-", if they are not rare.

    >>> from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules
    >>> alphabet_of(Vocabulary([*SPECIAL_WORDS, "ab", "a2", ":)"], NormalisationRules()))
    'ab'
    """
    words = vocabulary.words[NUM_SPECIAL:]
    counts = collections.Counter(letter for word in words for letter in set(word))
    return "".join(
        sorted(
            letter
            for letter, count in counts.items()
            if word_cells.is_alphabet(letter) and count >= _RARE_LETTER * len(words)
        )
    )


@dataclasses.dataclass(frozen=True)
class GroupResult:
    """The cells of a group that stay, with their counts: beginnings of words, and whole words."""

    prefixes: dict[str, float]
    words: dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordSearch:
    """The rules of a search.

    Attributes:
      alphabet: The letters of words.
      letters: Number of letters by which a group extends a prefix.
      slots: Largest number of prefixes that stay alive; of more, those with the largest counts.
      max_cells: Largest number of cells of a device.
      groups: Largest number of groups. Words of up to `groups * letters` - 1 letters are found.
      min_devices: Number of devices of a group on which a word must be typed, >= 2.
      noise_multiplier: Standard deviation of the noise divided by `word_cells.clip_norm`; 0: none.

    Raises:
      UsageError: If a value is out of range.
    """

    alphabet: str
    letters: int
    slots: int
    max_cells: int
    groups: int
    min_devices: int
    noise_multiplier: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= MAX_LENGTH:
            raise UsageError(f"--groups must be in 1..{MAX_LENGTH}, got {self.groups}.")
        if self.min_devices < 2:
            raise UsageError(
                f"--min-devices must be at least 2, got {self.min_devices}: a word of one device "
                "would be printed."
            )
        try:
            self.first_work.check()
        except ValueError as error:
            raise UsageError(f"{error}. The values come from the model and the flags.") from None

    @property
    def first_work(self) -> NewWords:
        """The work of the first group."""
        return self._work([""])

    @property
    def margin(self) -> float:
        """Devices above `min_devices` that a noisy count needs; 0 without noise."""
        if not self.noise_multiplier:
            return 0.0
        from scipy import special

        stddev = self.noise_multiplier * word_cells.clip_norm(self.max_cells)
        return float(-stddev * special.ndtri(_ERROR / (self.first_work.size * self.groups)))

    @property
    def threshold(self) -> float:
        """The smallest count of a cell that stays."""
        return self.min_devices + self.margin

    def work_after(self, results: list[GroupResult]) -> NewWords | None:
        """Returns the work of the next group; None if the search is over."""
        if len(results) >= self.groups:
            return None
        if not results:
            return self.first_work
        prefixes = sorted(results[-1].prefixes)
        return self._work(prefixes) if prefixes else None

    def result_of(self, total: np.ndarray, work: NewWords) -> GroupResult:
        """Returns the cells of a group that stay.

        Args:
          total: The sum of the group's vectors, with noise if there is any, [size].
          work: The work of the group.
        """
        num_cells = word_cells.cells_of_prefix(len(self.alphabet), self.letters)
        prefixes: dict[str, float] = {}
        words: dict[str, float] = {}
        for slot, prefix in enumerate(work.prefixes):
            counts = total[slot * num_cells : (slot + 1) * num_cells]
            if not (counts >= self.threshold).any():
                continue
            texts = word_cells.texts_of_prefix(prefix, self.alphabet, self.letters)
            for text, count in zip(texts, counts.tolist(), strict=True):
                if count >= self.threshold:
                    is_word = text.endswith(word_cells.END)
                    found = words if is_word else prefixes
                    found[text.removesuffix(word_cells.END)] = count
        words.pop("", None)  # noise may keep the empty word
        best = sorted(prefixes, key=lambda text: (-prefixes[text], text))[: self.slots]
        return GroupResult({text: prefixes[text] for text in sorted(best)}, words)

    def is_result(self, prefixes: Mapping[str, float], words: Mapping[str, float]) -> bool:
        """Returns whether these can be the cells of a group that stayed, read from a file."""
        letters = set(self.alphabet)
        return (
            len(prefixes) <= self.slots
            and len(set(map(len, prefixes))) <= 1
            and all(text and set(text) <= letters for text in (*prefixes, *words))
            and all(
                isinstance(count, int | float) and math.isfinite(count)
                for count in (*prefixes.values(), *words.values())
            )
        )

    def _work(self, prefixes: list[str]) -> NewWords:
        return NewWords(
            alphabet=self.alphabet,
            prefixes=prefixes,
            letters=self.letters,
            slots=self.slots,
            max_cells=self.max_cells,
        )


def words_of(results: list[GroupResult]) -> dict[str, float]:
    """Returns the words that were found, and their counts, the most frequent ones first."""
    words = {word: count for result in results for word, count in result.words.items()}
    return dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))
