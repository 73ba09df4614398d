"""The probability that letters form a word outside the vocabulary, by trigrams of letters.

    P(word) = product over its letters and its end of (n(abc) + 3 P(c)) / (n(ab) + 3)

The trigrams are counted over the vocabulary's words, each once, because new words are built like
known ones. The model distinguishes "johann" from "thnks".
"""

import collections
import math
from collections.abc import Iterable

_WEIGHT = 3.0  # weight of the letter without context, in counts
_UNSEEN = 0.5  # count of a letter that is in no word
_BEFORE, _END = "^^", "$"


class LetterModel:
    """Trigrams of the letters of some words.

    >>> model = LetterModel(["anna", "hanna", "johanna", "thanks"])
    >>> model.log_probability("annah") > model.log_probability("thnks")
    True
    """

    def __init__(self, words: Iterable[str]):
        self._letters: collections.Counter[str] = collections.Counter()
        self._pairs: collections.Counter[str] = collections.Counter()
        self._triples: collections.Counter[str] = collections.Counter()
        for word in words:
            text = _BEFORE + word + _END
            for i in range(2, len(text)):
                self._letters[text[i]] += 1
                self._pairs[text[i - 2 : i]] += 1
                self._triples[text[i - 2 : i + 1]] += 1
        self._total = sum(self._letters.values()) + _UNSEEN

    def log_probability(self, word: str) -> float:
        """Returns the natural logarithm of the probability of this word among all new words."""
        text = _BEFORE + word + _END
        return sum(self._log_letter(text[i - 2 : i + 1]) for i in range(2, len(text)))

    def _log_letter(self, triple: str) -> float:
        """Returns log P(third letter | the two letters before it)."""
        alone = max(self._letters[triple[2]], _UNSEEN) / self._total
        count = self._triples[triple] + _WEIGHT * alone
        return math.log(count / (self._pairs[triple[:2]] + _WEIGHT))
