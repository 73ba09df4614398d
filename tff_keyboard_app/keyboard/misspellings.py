"""Finds misspellings that the vocabulary learned from users' text: "tomorow" for "tomorrow".

A word counts as a misspelling of another word if it is one common slip away from it and the other
word is 20 times as frequent. A misspelling is withheld only while the other word is on the strip.
A user who means "latter" and not "later" gets it after the letter in which they differ.
"""

import pathlib
from collections.abc import Iterator, Mapping

from tff_keyboard_app.keyboard.languages import LANGUAGES, Language
from tff_keyboard_app.keyboard.typed_cache import typed_cache

RATIO = 20.0
MISSPELT = pathlib.Path(__file__).parent / "misspelt"
_SLANG = pathlib.Path(__file__).parent / "slang"

_SHORTEST_SWAPPED = 3
_SHORTEST_DOUBLED = 4
_SHORTEST = 5  # shorter words have too many neighbours that are words
_SHORTEST_VOWEL = 7  # "thank" is no slip of "think"


class Misspellings:
    """Word frequencies that identify misspellings of common words.

    >>> misspellings = Misspellings({"tomorrow": 0.1, "tomorow": 0.001, "tomorrows": 0.001})
    >>> misspellings.meant_by("tomorow"), misspellings.meant_by("tomorrows")
    ('tomorrow', None)

    Args:
      frequencies: Word -> frequency, in any unit.
      language: The language, which determines vowels and letters.
    """

    def __init__(self, frequencies: Mapping[str, float], language: Language = LANGUAGES["en"]):
        self._frequencies = frequencies
        self._vowels = language.vowels
        letters = sorted(language.letters)
        self._no_endings = "".join(x for x in letters if x not in language.endings)
        self.meant_by = typed_cache(self._meant_by, maxsize=20_000)

    def _meant_by(self, word: str) -> str | None:
        """Returns the common word that a word looks like a slip of; None if there is none."""
        common = self._frequencies
        frequency = common.get(word, 0.0)
        best = max(self._unslipped(word), key=lambda other: common.get(other, 0.0), default="")
        return best if common.get(best, 0.0) >= RATIO * frequency > 0.0 else None

    def _unslipped(self, word: str) -> Iterator[str]:
        """Yields words that may be meant: letters swapped or doubled, other vowels, apostrophes."""
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


def packaged_misspellings(language: str) -> frozenset[str]:
    """Returns the strings that no dictionary of a language has; none for an unknown language."""
    return _packaged(MISSPELT, language)


def packaged_slang(language: str) -> frozenset[str]:
    """Returns slang words, which users mean but no dictionary has: "tbh", "gonna", "thx"."""
    return _packaged(_SLANG, language)


def _packaged(folder: pathlib.Path, language: str) -> frozenset[str]:
    """Returns the words of a language's file in a folder; none if there is no file."""
    path = folder / f"{language}.txt"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return frozenset(line for line in lines if not line.startswith("#"))
