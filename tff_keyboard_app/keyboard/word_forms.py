"""Estimates how often forms of known words occur that no list has: Turkish "uyuyamadı".

    frequency(form) = max over stems of frequency(stem) x P(ending | class of the stem)

Languages such as Turkish add endings to words, one after another, so no list has all forms. The
endings come from the lexicon itself: "evlerde" is a form of "ev" with the ending "lerde", because
both are words. P(ending | class) is the share of the stems of a class that have this ending
in the lexicon. The class of a stem is its last vowel, because the vowels of an ending depend on it
(vowel harmony), and whether it is the last letter.
"""

import collections
from collections.abc import Mapping

SHORTEST_STEM = 3  # letters; shorter words begin too many strings
_CLASS = 2  # characters of the name of a class


class WordForms:
    """Estimates the frequency of words that a lexicon lacks, from its stems and their endings.

    Args:
      frequencies: Word -> frequency, for the words of the lexicon.
      vowels: Vowels of the language.

    >>> words = {"kitap": 0.02, "kitaplar": 0.01, "sokak": 0.02, "sokaklar": 0.01, "banka": 0.01}
    >>> forms = WordForms(words | {"duvar": 0.04}, "aeıioöuü")
    >>> forms.frequency("duvarlar"), forms.frequency("duvarler")
    (0.016, 0.0)
    """

    def __init__(self, frequencies: Mapping[str, float], vowels: str):
        self._frequencies = frequencies
        self._vowels = vowels
        self._endings: collections.Counter[str] = collections.Counter()  # class and ending
        self._stems: collections.Counter[str] = collections.Counter()  # class
        stems: list[tuple[str, str]] = []  # the words that a word begins with, and their classes
        for word in sorted(word for word in frequencies if len(word) >= SHORTEST_STEM):
            while stems and not word.startswith(stems[-1][0]):
                stems.pop()
            for stem, name in stems:
                self._endings[name + word[len(stem) :]] += 1
            name = self._class_of(word)
            self._stems[name] += 1
            stems.append((word, name))

    def frequency(self, word: str) -> float:
        """Returns the frequency of a string as a form; 0 if it has no known stem and ending."""
        return max(
            (
                self.frequency_of(word[:size], word[size:])
                for size in range(SHORTEST_STEM, len(word))
            ),
            default=0.0,
        )

    def frequency_of(self, stem: str, ending: str) -> float:
        """Returns the frequency of a word with an ending; 0 if the lexicon lacks one of them."""
        if stem not in self._frequencies:
            return 0.0
        name = self._class_of(stem)
        share = self._endings.get(name + ending, 0) / max(1, self._stems[name])
        return share * self._frequencies[stem]

    @property
    def endings(self) -> set[str]:
        """Returns the endings that more than one word of a class has."""
        return {ending[_CLASS:] for ending, words in self._endings.items() if words > 1}

    def _class_of(self, stem: str) -> str:
        """Returns two characters: the last vowel, and whether the stem ends in it."""
        last = next((letter for letter in reversed(stem) if letter in self._vowels), "-")
        return f"{last}{stem[-1] == last:d}"
