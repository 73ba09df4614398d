"""What was meant by a typed word: model x channel, by Bayes' rule.

    P(meant | typed, context) ~ P(meant | context) P(typed | meant)

over the words one slip away, against the chance that the word is meant as it is typed: the model's
own probability for a word it knows, and for an unknown one P(OOV | context) times the chance of
those very letters (`letter_model`).

Vocabularies hold people's slips, too. A word of the vocabulary is doubted only if slips explain
most of its frequency: sum of P(meant) P(typed | meant) over its neighbours >= P(typed) / 2.
"""

import dataclasses
import functools
import math
from collections.abc import Container, Mapping

import numpy as np

from tff_keyboard.data.vocabulary import OOV, Vocabulary
from tflite_export import typo_channel
from tflite_export.letter_model import LetterModel

SHORTEST = 3  # letters; shorter words have too many neighbours
APPLIED_FROM = 0.9  # probability of having been meant
OFFERED_FROM = 0.2

_DOUBTED_FROM = 0.5
_NOTHING: Mapping[str, int] = {}


@dataclasses.dataclass(frozen=True)
class Correction:
    """A word in the place of the typed one.

    Attributes:
      word: Lower case, of the vocabulary.
      probability: That it was meant.
      score: P(meant | context) P(typed | meant), which compares with P(word | context) of a word
        that goes on from what is typed.
    """

    word: str
    probability: float
    score: float

    @property
    def is_sure(self) -> bool:
        return self.probability >= APPLIED_FROM


class Autocorrect:
    """Corrections of finished words; for lower-case vocabularies.

    Args:
      vocabulary: The words.
      frequencies: Word -> probability without context; see `word_frequencies`.
    """

    def __init__(self, vocabulary: Vocabulary, frequencies: Mapping[str, float]):
        self._ids = {word: i for i, word in enumerate(vocabulary.words) if i > OOV}
        self._frequencies = frequencies
        self._letters = LetterModel(self._ids)
        # People type the same beginnings over and over.
        self._known_slips = functools.lru_cache(maxsize=4_000)(self._slips)

    def correct(
        self, typed: str, next_word: np.ndarray, own: Mapping[str, int] = _NOTHING
    ) -> Correction | None:
        """The likeliest other word, None where that is not likely enough to be offered.

        Args:
          typed: The word, normalised.
          next_word: [V + own] probabilities after the words before it.
          own: Ids of the owner's words that are not in the vocabulary.
        """
        if len(typed) < SHORTEST or any(letter not in typo_channel.NEIGHBOURS for letter in typed):
            return None
        slips = self._known_slips(typed)
        if any(_may_be_one_slip(typed, word) for word in own):
            slips = {**slips, **_slips_among(typed, own)}
        if not slips or not self._may_be_slip(typed, slips):
            return None
        scores = {
            word: slip * float(next_word[self._ids.get(word, own.get(word, OOV))])
            for word, slip in slips.items()
        }
        best = max(scores, key=scores.__getitem__)
        total = sum(scores.values()) + self._as_typed(typed, next_word, own)
        probability = scores[best] / total if total > 0.0 else 0.0
        if probability < OFFERED_FROM:
            return None
        return Correction(best, probability, scores[best])

    def _slips(self, typed: str) -> dict[str, float]:
        return _slips_among(typed, self._ids)

    def _may_be_slip(self, typed: str, slips: Mapping[str, float]) -> bool:
        explained = sum(slip * self._frequencies.get(word, 0.0) for word, slip in slips.items())
        return explained >= _DOUBTED_FROM * self._frequencies.get(typed, 0.0)

    def _as_typed(self, typed: str, next_word: np.ndarray, own: Mapping[str, int]) -> float:
        row = self._ids.get(typed)
        if row is not None:
            # What slips do not explain; `_may_be_slip` left at most half of it.
            return typo_channel.NO_SLIP * float(next_word[row]) * (1.0 - _DOUBTED_FROM)
        if typed in own:
            return typo_channel.NO_SLIP * float(next_word[own[typed]])
        chance = float(next_word[OOV]) * math.exp(self._letters.log_probability(typed))
        return typo_channel.NO_SLIP * chance


def _slips_among(typed: str, words: Container[str]) -> dict[str, float]:
    """Word -> P(typed | word) of those one slip away."""
    slips: dict[str, float] = {}
    for word, slip in typo_channel.meant_words(typed):
        if word in words:
            slips[word] = slips.get(word, 0.0) + slip
    return slips


def _may_be_one_slip(typed: str, word: str) -> bool:
    """Not whether it is: only what a glance can tell."""
    return abs(len(typed) - len(word)) <= 1 and (typed[0] == word[0] or typed[-1] == word[-1])
