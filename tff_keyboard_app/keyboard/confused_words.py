"""Decides which of several right words was meant: "your" or "you're", "das" or "dass".

The words of a list (`confused/LANGUAGE.txt`) are typed for each other. The model compares them,
with the words before and, when it is typed, the word after:

    P(word | context) P(next word | context, word)

A change needs odds of `_ODDS` against the word as it is typed and all other words of its line. When
the next word is not typed yet, it needs the odds `_ODDS_ALONE`, so "better then me" is corrected
after "me". A member of a list may be two words: "haber" for "a ver", Turkish "bende" for "ben de".

A slip of the finger also makes one word of another ("not sure id he comes"). The likeliest word
that is one slip away competes as well, if the next word is typed, with P(typed | word) as its
weight. It needs the odds `_ODDS_OF_SLIP`, which are higher, because every word has such neighbours.

Contractions without their apostrophe ("ill", "lets", "id", "its") are such words, too. The model
learned from users who leave apostrophes out, so P(word | context) includes many uses of the
contraction. Therefore the ratio is multiplied by a weight, and the odds are lower. The weights and
odds were chosen so that few right words are changed, see docs/phone/spelling.md.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

# Word -> the contraction that it is without its apostrophe.
CONTRACTIONS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "ill": "i'll",
        "id": "i'd",
        "lets": "let's",
        "its": "it's",
        "were": "we're",
        "wed": "we'd",
        "well": "we'll",
        "hell": "he'll",
        "shell": "she'll",
    }
}
CONFUSED = pathlib.Path(__file__).parent / "confused"
LONGEST = 2  # words of a member
_ODDS_OF_CONTRACTION = 19.0
# Weight of a contraction, against the word as it is typed. "its" is typed for "it's" most often.
_WEIGHT, _WEIGHTS = 3.0, {"its": 8.0}
# Odds of a confused word if the next word is typed: 3.5 nats; and before: 6 nats. The text of the
# Turkish model has too few pairs to choose odds, so they are only offered.
_ODDS, _ODDS_ALONE = 33.0, 400.0
_ONLY_OFFERED = ("tr",)
_ODDS_OF_SLIP = 400.0  # of a word that is one slip of the finger away, if the next word is typed
# Where a sentence begins, no word before it speaks for one of the two. So the next word has to: it
# must be more often after the other word, by this factor. Otherwise the odds are `_ODDS_ALONE`.
_BY_NEXT_AT_START = 4.0
# If the odds before the next word are smaller, the next word is not asked.
_HOPELESS, _HOPELESS_SLIP = math.exp(-6.0), math.exp(-1.0)


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Another word that was probably meant.

    Attributes:
      meant: The word, or the two words with a space.
      probability: Of having been meant, instead of the typed word and the others of its line.
      chance: P(meant | context).
      is_sure: Whether a space changes the typed word into it.
      is_slip: Whether it is one slip of the finger away, and in no list with the typed word.
    """

    meant: str
    probability: float
    chance: float
    is_sure: bool
    is_slip: bool = False


class _Model(Protocol):
    """The language model: P(word) after a context, by row."""

    def next_word(self, context: Sequence[str]) -> np.ndarray: ...


@functools.lru_cache(maxsize=16)
def packaged_lines(language: str) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Returns (words that are typed, words that are only meant) of each line of a language's list.

    Empty for a language without a list.
    """
    path = CONFUSED / f"{language}.txt"
    if not path.is_file():
        return ()
    lines = []
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            typed, _, meant = line.partition(">")
            lines.append((_members(typed), _members(meant)))
    return tuple(lines)


def _members(part: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in part.split(",") if word.strip())


class ConfusedWords:
    """The words of a language that are typed for each other.

    Args:
      model: Gives the probabilities of the next word.
      language: Code of the language. A language without lists confuses no words.
      is_word: Tells whether the keyboard knows a word. Lines are used as far as it does.
      chance: Returns P(word | context) of any word from the probabilities of the next word.
      slips: Returns word -> P(typed | word) of the words that are one slip of the finger away.
    """

    def __init__(
        self,
        model: _Model,
        language: str,
        is_word: Callable[[str], bool],
        chance: Callable[[str, np.ndarray], float],
        slips: Callable[[str], Mapping[str, float]] = lambda typed: {},
    ):
        self._model = model
        self._chance = chance
        self._slips = slips
        self._only_offers = language in _ONLY_OFFERED
        self._is_word = is_word
        self._contractions = {
            word: contraction
            for word, contraction in CONTRACTIONS.get(language, {}).items()
            if is_word(contraction)
        }
        confused: dict[str, list[str]] = {}
        for typed, meant in packaged_lines(language):
            for word in typed:
                confused_with_word = [other for other in (*typed, *meant) if other != word]
                confused.setdefault(word, []).extend(filter(self._is_known, confused_with_word))
        self._confused = {word: tuple(dict.fromkeys(words)) for word, words in confused.items()}

    def contraction(self, word: str) -> str | None:
        """Returns the contraction with the apostrophe: "i'll" for "ill". None for other words."""
        return self._contractions.get(word)

    def best(
        self, context: Sequence[str], typed: str, following: str | None = None
    ) -> Confusion | None:
        """Returns the word that was most probably meant instead of the typed one.

        Args:
          context: The words before it.
          typed: A word, or two with a space between them.
          following: The next word, if it is typed.

        Returns:
          None if no word is confused with the typed one, the next word is not known, or the other
          words are too improbable already before it.
        """
        if following is not None and not self._is_word(following):
            return None
        contraction = self._contractions.get(typed)
        weights = dict.fromkeys(self._confused.get(typed, ()), 1.0)
        if contraction:
            weights[contraction] = _WEIGHTS.get(typed, _WEIGHT)
        scores_without_next = {
            word: weight * self._chance_of(context, word) for word, weight in weights.items()
        }
        as_typed = self._chance_of(context, typed)
        slip = self._likeliest_slip(context, typed) if following is not None else None
        if (
            slip is not None
            and slip[0] not in scores_without_next
            and slip[1] > _HOPELESS_SLIP * as_typed
        ):
            scores_without_next[slip[0]] = slip[1]
        scores = {
            word: score
            for word, score in scores_without_next.items()
            if score > _HOPELESS * as_typed
        }
        if not scores:
            return None
        if following is not None:
            for word in scores:
                scores[word] *= self._chance_after(context, word, following)
            as_typed *= self._chance_after(context, typed, following)
        meant = max(scores, key=scores.__getitem__)
        if scores[meant] <= 0.0:
            return None
        other_scores = as_typed + sum(scores.values()) - scores[meant]
        probability = scores[meant] / (scores[meant] + other_scores)
        if meant == contraction:
            odds = _ODDS_OF_CONTRACTION
        elif meant not in weights:
            odds = _ODDS_OF_SLIP
        else:
            odds = _ODDS_ALONE if following is None else _ODDS
            if not context and following is not None:
                by_next = self._chance_after(context, meant, following)
                if by_next < _BY_NEXT_AT_START * self._chance_after(context, typed, following):
                    odds = _ODDS_ALONE
        is_sure = scores[meant] >= odds * other_scores and not self._only_offers
        if following is None and contraction:
            likelier = self._likelier_slip(context, typed, scores_without_next[meant])
            if likelier is not None:  # the next word decides: "sure id he" and "sure id like"
                return Confusion(*likelier, is_sure=False, is_slip=True)
        return Confusion(
            meant, probability, scores_without_next[meant], is_sure, meant not in weights
        )

    def _likeliest_slip(self, context: Sequence[str], typed: str) -> tuple[str, float] | None:
        """Returns the likeliest word one slip away, and P(word | context) P(typed | word)."""
        slips = self._slips(typed)
        if not slips:
            return None
        next_word = self._model.next_word(context)
        scores = {word: slip * self._chance(word, next_word) for word, slip in slips.items()}
        best = max(scores, key=scores.__getitem__)
        return best, scores[best]

    def _likelier_slip(
        self, context: Sequence[str], typed: str, chance: float
    ) -> tuple[str, float, float] | None:
        """Returns the likeliest word one slip away, if it is likelier here than `chance`.

        Returns:
          The word, its probability against `chance`, and P(word | context); None if `chance` is
          larger.
        """
        next_word = self._model.next_word(context)
        chances = {word: self._chance(word, next_word) for word in self._slips(typed)}
        best = max(chances, key=chances.__getitem__, default=None)
        if best is None or chances[best] <= chance:
            return None
        return best, chances[best] / (chances[best] + chance), chances[best]

    def _chance_of(self, context: Sequence[str], words: str) -> float:
        """Returns P(words | context) of one or two words."""
        probability = 1.0
        for word in words.split():
            probability *= self._chance(word, self._model.next_word(context))
            context = [*context, word]
        return probability

    def _chance_after(self, context: Sequence[str], words: str, following: str) -> float:
        return self._chance(following, self._model.next_word([*context, *words.split()]))

    def _is_known(self, words: str) -> bool:
        return all(map(self._is_word, words.split()))
