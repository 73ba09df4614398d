"""What was meant by a typed word: model x channel, by Bayes' rule.

    P(meant | typed, context) ~ P(meant | context) P(typed | meant)

over the words one slip away, against the chance that the word is meant as it is typed: the model's
own probability for a word it knows, and for an unknown one P(OOV | context) times its share in the
lexicon, or the chance of those very letters (`letter_model`).

Vocabularies hold people's slips, too. A word of the vocabulary is doubted only if slips explain
most of its frequency: sum of P(meant) P(typed | meant) over its neighbours >= P(typed) / 2.
"""

import bisect
import dataclasses
import functools
import math
import re
from collections.abc import Collection, Container, Mapping

import numpy as np

from tff_keyboard.data.vocabulary import OOV, Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tflite_export.keyboard.languages import LANGUAGES, Language
from tflite_export.keyboard.letter_model import LetterModel
from tflite_export.keyboard.typo_channel import NO_SLIP, TypoChannel

SHORTEST = 2  # letters; any single one is a word or its start
APPLIED_FROM = 0.9  # probability of having been meant
OFFERED_FROM = 0.2

_DOUBTED_FROM = 0.5
_UNKNOWN = 0.05  # of all words typed, those that are in no table
_STRETCHED = re.compile(r"(.)\1\1")  # "soooo" is meant
_LAST = "\U0010ffff"  # sorts behind every letter
_NO_SLIP_AWAY = 1e-9  # of a word that only begins alike: behind all that are one slip away
_FEWEST_SHARED = 2  # letters
_ENOUGH_NEAR = 4  # words; one may stand on the strip already
_NOTHING: Mapping[str, int] = {}


@dataclasses.dataclass(frozen=True)
class Correction:
    """A word in the place of the typed one."""

    word: str  # lower case, of the vocabulary
    probability: float
    # P(meant | context) P(typed | meant), which compares with P(word | context) of a word that goes
    # on from what is typed
    score: float

    @property
    def is_sure(self) -> bool:
        return self.probability >= APPLIED_FROM


class Autocorrect:
    """Corrections of finished words; for lower-case vocabularies.

    Frequencies are those of `word_frequencies`; `tail` has words beyond the vocabulary; the
    language is the one whose keys were typed on.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        frequencies: Mapping[str, float],
        tail: TailLexicon | None = None,
        language: Language = LANGUAGES["en"],
    ):
        self._tail = tail
        self._channel = TypoChannel(language)
        self._endings = language.forms
        self._ids = {word: i for i, word in enumerate(vocabulary.words) if i > OOV}
        self._sorted = sorted(self._ids)
        self._frequencies = {**frequencies, **frequencies_of(tail)}
        self._letters = LetterModel(self._ids)
        # People type the same beginnings over and over.
        self._known_slips = functools.lru_cache(maxsize=4_000)(self._slips)
        self._known_near = functools.lru_cache(maxsize=200)(self._near)

    def correct(
        self,
        typed: str,
        next_word: np.ndarray,
        own: Mapping[str, int] = _NOTHING,
        *,
        as_typed: np.ndarray | None = None,
    ) -> Correction | None:
        """The likeliest other word, None where that is not likely enough to be offered.

        `next_word` are [V + own] probabilities after the words before it, `own` the ids of the
        owner's words that are not in the vocabulary. A word of the vocabulary is judged as it is
        typed by `as_typed` [V], where others than `next_word` count.
        """
        if not self._can_be_slip(typed):
            return None
        if len(typed) == SHORTEST and typed in self._ids:  # a word, or somebody's slip: no telling
            return None
        slips = self._slips_with(typed, own)
        if not slips or not self._may_be_slip(typed, slips):
            return None
        scores = {
            word: slip * float(next_word[self._ids.get(word, own.get(word, OOV))])
            for word, slip in slips.items()
        }
        best = max(scores, key=scores.__getitem__)
        judged = next_word if as_typed is None or typed not in self._ids else as_typed
        total = sum(scores.values()) + self._as_typed(typed, judged, own)
        probability = scores[best] / total if total > 0.0 else 0.0
        if probability < OFFERED_FROM:
            return None
        return Correction(best, probability, scores[best])

    def slip_without_context(
        self, typed: str, own: Collection[str] = (), typed_share: Mapping[str, float] = _NOTHING
    ) -> tuple[Collection[str], float]:
        """The words that a string may be a slip of, and how likely it is one of any.

        Neither `typed`, normalised, nor the owner's words `own` are in the vocabulary. By this
        owner's typing `typed_share` is what share of all words each is.
        """
        if not self._can_be_slip(typed):
            return (), 0.0
        slips = self._slips_with(typed, own)
        slipped = sum(
            slip * (self._frequencies.get(word, 0.0) + typed_share.get(word, 0.0))
            for word, slip in slips.items()
        )
        as_typed = _UNKNOWN * self._share_of_unknown(typed) * NO_SLIP
        return slips.keys(), slipped / (slipped + as_typed)

    def near(self, typed: str, next_word: np.ndarray, count: int) -> list[tuple[str, float]]:
        """At most `count` words that go on from a beginning like this one, with probabilities.

        Those of beginnings one slip away, best first, then those that share its first letters.
        """
        if not self._can_be_slip(typed):
            return []
        scores: dict[str, float] = {}
        for word, slip in self._known_near(typed):
            scores[word] = max(scores.get(word, 0.0), slip * float(next_word[self._ids[word]]))
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:count]
        return [(word, float(next_word[self._ids[word]])) for word in best]

    def _can_be_slip(self, typed: str) -> bool:
        return (
            len(typed) >= SHORTEST
            and all(letter in self._channel.neighbours for letter in typed)
            and not _STRETCHED.search(typed)
        )

    def _slips(self, typed: str) -> dict[str, float]:
        return self._slips_among(typed, self._ids)

    def _slips_with(self, typed: str, own: Collection[str]) -> dict[str, float]:
        slips = self._known_slips(typed)
        if any(_may_be_one_slip(typed, word) for word in own):
            slips = {**slips, **self._slips_among(typed, own)}
        return slips

    def _slips_among(self, typed: str, words: Container[str]) -> dict[str, float]:
        """Word -> P(typed | word) of those one slip away."""
        slips: dict[str, float] = {}
        for word, slip in self._channel.meant_words(typed):
            if word in words and not self._are_forms_of_one(typed, word):
                slips[word] = slips.get(word, 0.0) + slip
        return slips

    def _are_forms_of_one(self, word: str, other: str) -> bool:
        """Whether only a last letter tells them apart: "graduate", "graduates", "graduated"."""
        longer, shorter = (word, other) if len(word) >= len(other) else (other, word)
        stem, endings = longer[:-1], self._endings
        return longer[-1] in endings and shorter in (stem, *(stem + x for x in endings))

    def _near(self, typed: str) -> list[tuple[str, float]]:
        """Words with what ranks them beside their probability."""
        found = [
            (word, slip)
            for start, slip in self._channel.meant_words(typed)
            for word in self._words_from(start)
        ]
        for length in range(len(typed) - 1, _FEWEST_SHARED - 1, -1):
            if len({word for word, _ in found}) >= _ENOUGH_NEAR:
                break
            found += [(word, _NO_SLIP_AWAY) for word in self._words_from(typed[:length])]
        return found

    def _words_from(self, start: str) -> list[str]:
        first = bisect.bisect_left(self._sorted, start)
        return self._sorted[first : bisect.bisect_left(self._sorted, start + _LAST)]

    def _may_be_slip(self, typed: str, slips: Mapping[str, float]) -> bool:
        explained = sum(slip * self._frequencies.get(word, 0.0) for word, slip in slips.items())
        return explained >= _DOUBTED_FROM * self._frequencies.get(typed, 0.0)

    def _as_typed(self, typed: str, next_word: np.ndarray, own: Mapping[str, int]) -> float:
        row = self._ids.get(typed)
        if row is not None:
            # What slips do not explain; `_may_be_slip` left at most half of it.
            return NO_SLIP * float(next_word[row]) * (1.0 - _DOUBTED_FROM)
        if typed in own:
            return NO_SLIP * float(next_word[own[typed]])
        return NO_SLIP * float(next_word[OOV]) * self._share_of_unknown(typed)

    def _share_of_unknown(self, typed: str) -> float:
        """How likely a word out of the vocabulary is this one."""
        share = self._tail.share_of(typed) if self._tail is not None else 0.0
        return share or math.exp(self._letters.log_probability(typed))


def frequencies_of(tail: TailLexicon | None) -> dict[str, float]:
    """Word -> probability without context, of a lexicon."""
    if tail is None:
        return {}
    return dict(zip(tail.words, (_UNKNOWN * tail.shares).tolist(), strict=True))


def _may_be_one_slip(typed: str, word: str) -> bool:
    """Not whether it is: only what a glance can tell."""
    return abs(len(typed) - len(word)) <= 1 and (typed[0] == word[0] or typed[-1] == word[-1])
