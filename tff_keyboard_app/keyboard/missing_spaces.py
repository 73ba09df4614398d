"""Splits words typed as one: "thankyou", "howareyou", and "ibwant" ("b" for a space).

    P(typed) = P(first | context) P(second | context, first) P(slip)

for each place where the typed string can be split into two words of the vocabulary, or into three.
The slip is a missing space, or a letter above the space bar instead of the space. A full stop
beside the bar may be hit, too: `probability_of_space` compares "the.winner" as two words with the
end of a sentence after which the space is missing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.data.vocabulary import EOS
from tff_keyboard_app.keyboard.touches import SPACE

# No words of the language, though many people write them so, and the words that they are.
JOINED: Mapping[str, Mapping[str, str]] = {
    "en": {
        "abit": "a bit",
        "alot": "a lot",
        "aswell": "as well",
        "atleast": "at least",
        "atthe": "at the",
        "doyou": "do you",
        "eachother": "each other",
        "eventhough": "even though",
        "forthe": "for the",
        "goodmorning": "good morning",
        "incase": "in case",
        "infact": "in fact",
        "infront": "in front",
        "inspite": "in spite",
        "inthe": "in the",
        "itwas": "it was",
        "noone": "no one",
        "ofcourse": "of course",
        "ofthe": "of the",
        "ofthese": "of these",
        "ofthis": "of this",
        "onthe": "on the",
        "rightnow": "right now",
        "thankyou": "thank you",
        "tothe": "to the",
        "willbe": "will be",
    },
    "de": {
        "aufjedenfall": "auf jeden Fall",
        "garnicht": "gar nicht",
        "garnichts": "gar nichts",
        "immernoch": "immer noch",
        "nurnoch": "nur noch",
        "schonmal": "schon mal",
        "vorallem": "vor allem",
    },
    "es": {"aveces": "a veces", "porfavor": "por favor"},
    "pt": {
        "apartir": "a partir",
        "concerteza": "com certeza",
        "derrepente": "de repente",
        "porfavor": "por favor",
        "porisso": "por isso",
    },
    "tr": {
        "birsey": "bir şey",
        "birşey": "bir şey",
        "hersey": "her şey",
        "herşey": "her şey",
    },
}
_SHORTEST = 4  # letters of two words, with the character between them
_SHORTEST_OF_THREE = 7  # letters of three words: "iamhere"
_LEFT_OUT = 0.002  # of the spaces
_LEFT_OUT_AGAIN = 0.2  # of the spaces after one that is left out
_HIT_FOR_SPACE = 0.001  # of the spaces, each of the letters above the bar, and the full stop
_LEFT_OUT_AFTER_STOP = 0.05  # of the spaces after a full stop
_LIFT = 20.0  # how much likelier a word before may make a word than it is without
_LOOKED_AT = 2  # cuts whose later words are asked of the model
_SINGLE = frozenset("ai")  # letters that are words
# Letters -> the smallest frequency of words with at least so many letters that a cut may give.
_MIN_FREQUENCY = {6: 1e-6, 4: 1e-5, 1: 1e-4}


class _Model(Protocol):
    """The language model: P(word) after a context, by row."""

    def next_word(self, context: Sequence[str]) -> np.ndarray: ...


class MissingSpaces:
    """A search for two words that were typed as one.

    Args:
      model: Gives the probabilities [V or more] of the next word.
      frequencies: Word -> frequency without context, as a share of all words.
      ids: Word -> row of the model's probabilities.
      bottom_row: The letters of the lowest row of keys, from left to right.
    """

    def __init__(
        self,
        model: _Model,
        frequencies: Mapping[str, float],
        ids: Mapping[str, int],
        bottom_row: str,
    ):
        self._model = model
        self._frequencies = frequencies
        self._ids = ids
        self._above_bar = bottom_row[2:]

    def best(
        self,
        context: Sequence[str],
        typed: str,
        least: float = 0.0,
        touched: Sequence[Mapping[str, float] | None] = (),
    ) -> tuple[str, float] | None:
        """Returns the most probable words, joined by spaces, and their score P(typed).

        None if no split gives two or three words, or if none can have a score of `least`. The score
        can be compared with P(word | context) P(typed | word) in `autocorrect.py`. `touched` has,
        for each letter, the keys that its touch may have meant (`TouchModel.ratios`).
        """
        if len(typed) < _SHORTEST:
            return None
        cuts = [*self._cuts_in_two(typed, touched), *self._cuts_in_three(typed)]
        if not cuts:
            return None
        first_word = self._model.next_word(context)
        ranked = []
        for chance, words in cuts:
            score = chance * self._probability(words[0], first_word)
            shares_of_later_words = [
                min(1.0, _LIFT * self._frequencies.get(word, 0.0)) for word in words[1:]
            ]
            estimate = score * math.prod(shares_of_later_words)
            if estimate >= least:
                ranked.append((estimate, score, words))
        phrases = []
        for _, score, words in sorted(ranked, reverse=True)[:_LOOKED_AT]:
            for position in range(1, len(words)):
                next_word = self._model.next_word([*context, *words[:position]])
                score *= self._probability(words[position], next_word)
            phrases.append((" ".join(words), score))
        return max(phrases, key=lambda pair: pair[1]) if phrases else None

    def probability_of_space(self, context: Sequence[str], words: tuple[str, str]) -> float:
        """Returns the probability that a full stop between two words was hit for the space bar.

        Otherwise it ends a sentence, and the second word begins the next one.
        """
        then = self._model.next_word([*context, words[0]])
        space = _HIT_FOR_SPACE * self._probability(words[1], then)
        first = self._probability(words[1], self._model.next_word([]))
        stop = _LEFT_OUT_AFTER_STOP * float(then[EOS]) * first
        return space / (space + stop) if space > 0.0 else 0.0

    def _probability(self, word: str, next_word: np.ndarray) -> float:
        """Returns P(word | context), by the frequency for words of the tail lexicon."""
        row = self._ids.get(word)
        return self._frequencies.get(word, 0.0) if row is None else float(next_word[row])

    def _cuts_in_two(
        self, typed: str, touched: Sequence[Mapping[str, float] | None] = ()
    ) -> Iterator[tuple[float, tuple[str, ...]]]:
        """Yields P(slip) and the words, for each split into two words."""
        for position in range(1, len(typed)):
            if not self.is_word(typed[:position]):
                continue
            if self.is_word(typed[position:]):
                yield _LEFT_OUT, (typed[:position], typed[position:])
            hit = self._hit_for_space(typed, position, touched)
            if hit and self.is_word(typed[position + 1 :]):
                yield hit, (typed[:position], typed[position + 1 :])

    def _hit_for_space(
        self, typed: str, position: int, touched: Sequence[Mapping[str, float] | None]
    ) -> float:
        """Returns the chance that a letter was hit for a space."""
        touch = touched[position] if touched else None
        if touch is not None:
            return touch.get(SPACE, 0.0)
        return _HIT_FOR_SPACE if typed[position] in self._above_bar else 0.0

    def _cuts_in_three(self, typed: str) -> Iterator[tuple[float, tuple[str, ...]]]:
        """Yields P(slip) and the words, for each split into three words without a space."""
        if len(typed) < _SHORTEST_OF_THREE:
            return
        for position in range(1, len(typed) - 1):
            if self.is_word(typed[:position]):
                for chance, words in self._cuts_in_two(typed[position:]):
                    if chance == _LEFT_OUT:
                        yield _LEFT_OUT * _LEFT_OUT_AGAIN, (typed[:position], *words)

    def is_word(self, word: str) -> bool:
        """Returns whether a string is a word and not one of the vocabulary's short non-words."""
        if not word.isalpha():
            return False
        min_frequency = next(p for letters, p in _MIN_FREQUENCY.items() if len(word) >= letters)
        frequency = self._frequencies.get(word, 0.0)
        is_frequent = len(word) > 1 and frequency >= min_frequency
        return is_frequent or (word in self._ids and word in _SINGLE)
