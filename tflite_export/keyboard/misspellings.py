"""Misspellings that the vocabulary learned from people: "tomorow" beside "tomorrow".

A word is taken for a misspelling of another if one slip of the usual kinds lies between them and
the other is 20 times as common. Such a word is kept off the strip only while the other stands on
it, so whoever means it ("latter" beside "later") gets it with the letter that tells them apart.
"""

import functools
from collections.abc import Iterator, Mapping

from tflite_export.keyboard.languages import LANGUAGES, Language

RATIO = 20.0

_SHORTEST_SWAPPED = 3
_SHORTEST_DOUBLED = 4
_SHORTEST = 5  # shorter words have too many neighbours that are words
_SHORTEST_VOWEL = 7  # "thank" is no slip of "think"


class Misspellings:
    """

    >>> misspellings = Misspellings({"tomorrow": 0.1, "tomorow": 0.001, "tomorrows": 0.001})
    >>> misspellings.meant_by("tomorow"), misspellings.meant_by("tomorrows")
    ('tomorrow', None)

    Frequencies say how common a word is, in any unit; the language, what letters words have.
    """

    def __init__(self, frequencies: Mapping[str, float], language: Language = LANGUAGES["en"]):
        self._frequencies = frequencies
        self._vowels = language.vowels
        letters = sorted("".join(language.keys))
        self._no_endings = "".join(x for x in letters if x not in language.endings)
        self.meant_by = functools.lru_cache(maxsize=20_000)(self._meant_by)

    def _meant_by(self, word: str) -> str | None:
        """The common word that this one looks like a slip of; None if there is none."""
        common = self._frequencies
        own = common.get(word, 0.0)
        best = max(self._unslipped(word), key=lambda other: common.get(other, 0.0), default="")
        return best if common.get(best, 0.0) >= RATIO * own > 0.0 else None

    def _unslipped(self, word: str) -> Iterator[str]:
        """What was meant: letters swapped, one letter of two, another vowel, an apostrophe."""
        for i in range(1, len(word)):
            head, tail = word[:i], word[i:]
            if len(word) >= _SHORTEST_SWAPPED:
                yield head[:-1] + tail[0] + head[-1] + tail[1:]
                yield head + "'" + tail
            if len(word) >= _SHORTEST_DOUBLED:
                yield head + head[-1] + tail  # "hapy"
            if len(word) < _SHORTEST:
                continue
            if head[-1] == tail[0]:
                yield head + tail[1:]  # "untill"
            for vowel in self._vowels:
                yield head + vowel + tail  # "diffrent"
                if tail[0] in self._vowels and len(word) >= _SHORTEST_VOWEL:
                    yield head + vowel + tail[1:]  # "definately"
        if len(word) >= _SHORTEST:
            for letter in self._no_endings:  # "key" and "keys" are two words
                yield word + letter  # "tomorro"
            if word[-1] in self._no_endings:
                yield word[:-1]
