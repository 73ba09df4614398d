"""Decides whether a word is a contraction without its apostrophe: "ill", "lets", "id", "its".

    P(contraction | context) / P(word | context)

decides. When the next word is typed, the ratio is multiplied by P(next word | contraction) /
P(next word | word): "were" alone stays, and "were going" becomes "we're going". The model learned
from users who leave apostrophes out, so P(word | context) includes many uses of the contraction.
Therefore the ratio is multiplied by a weight. The weight was chosen so that few right words are
changed, see docs/phone/spelling.md.
"""

from collections.abc import Mapping, Sequence
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
SURE_FROM = 0.95  # probability of having been meant; a word of the language is changed
# Weight of a contraction, against the word as it is typed. "its" is typed for "it's" most often.
_WEIGHT, _WEIGHTS = 3.0, {"its": 8.0}


class _Model(Protocol):
    def next_word(self, context: Sequence[str]) -> np.ndarray: ...


class Apostrophes:
    """Contractions of a language that the vocabulary has.

    Args:
      model: Gives the probabilities [V or more] of the next word.
      ids: Word -> row of those probabilities.
      language: Code of the language. A language without a table has no contractions.
    """

    def __init__(self, model: _Model, ids: Mapping[str, int], language: str):
        self._model = model
        self._ids = ids
        self._contractions = {
            word: contraction
            for word, contraction in CONTRACTIONS.get(language, {}).items()
            if contraction in ids
        }

    def contraction(self, word: str) -> str | None:
        """Returns the contraction with the apostrophe: "i'll" for "ill". None for other words."""
        return self._contractions.get(word)

    def probability(self, context: Sequence[str], word: str, following: str | None = None) -> float:
        """Returns the probability that a word after `context` is meant as its contraction.

        `following` is the next word, if it is typed. 0 if the word has no contraction.
        """
        contraction = self._contractions.get(word)
        if contraction is None:
            return 0.0
        chances = self._model.next_word(context)
        meant = _WEIGHTS.get(word, _WEIGHT) * float(chances[self._ids[contraction]])
        as_typed = float(chances[self._ids[word]]) if word in self._ids else 0.0
        if following is not None:
            row = self._ids.get(following)
            if row is None:
                return 0.0
            meant *= float(self._model.next_word([*context, contraction])[row])
            as_typed *= float(self._model.next_word([*context, word])[row])
        return meant / (meant + as_typed) if meant > 0.0 else 0.0
