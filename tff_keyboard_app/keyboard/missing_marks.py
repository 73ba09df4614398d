"""Finds the words that a string is without some of their marks: "cafe" -> "café", "fuer" -> "für".

Most people type no marks on a phone. A marked word is therefore filed under its letters without
marks, and a typed string finds all words that it can be, however many marks they have. Marks that
were typed are kept: "günaydin" finds "günaydın", and not a word with "u".

    P(typed | word) = 0.4 if the string has no mark, 0.05 if it has some of those of the word

The probabilities are set by hand.
"""

import bisect
import re
from collections.abc import Iterable, Iterator

from tff_keyboard_app.keyboard.languages import Language
from tff_keyboard_app.keyboard.typed_cache import typed_cache

WITHOUT_MARKS = 0.4  # of the marked words, typed without any of their marks
WITH_SOME_MARKS = 0.05
_LAST = "\U0010ffff"  # sorts after every letter


class MissingMarks:
    """The marked words of a lexicon.

    Args:
      words: Words in small letters. Those without a mark of the language are left out.
      language: The language. One without marks finds nothing.

    >>> from tff_keyboard_app.keyboard.languages import LANGUAGES
    >>> marks = MissingMarks(["für", "führen", "schon", "straße"], LANGUAGES["de"])
    >>> marks.likely("fur"), marks.likely("fuer"), marks.likely("strasse"), marks.likely("für")
    ({'für': 0.4}, {'für': 0.4}, {'straße': 0.4}, {})
    >>> list(marks.words_from("fue"))
    ['führen', 'für']
    """

    def __init__(self, words: Iterable[str], language: Language):
        self._typed: dict[str, list[str]] = {}  # marked letter -> what is typed for it
        for typed, letters in language.marked.items():
            for letter in letters:
                self._typed.setdefault(letter, []).append(typed)
        self._plain = {ord(letter): min(typed, key=len)[0] for letter, typed in self._typed.items()}
        letter_pairs = sorted(typed for typed in language.marked if len(typed) == 2)
        self._pairs = (
            re.compile("|".join(f"{pair}+" for pair in letter_pairs)) if letter_pairs else None
        )
        self._letters_of = typed_cache(self._make_letters, maxsize=4_000)
        marked = (word for word in words if not self._typed.keys().isdisjoint(word))
        words_by_letters = sorted((self._make_letters(word), word) for word in marked)
        # The words in the order of their letters without marks, and these letters, for bisection.
        self._keys = [key for key, _ in words_by_letters]
        self._words = [word for _, word in words_by_letters]

    def likely(self, typed: str, words: Iterable[str] | None = None) -> dict[str, float]:
        """Returns word -> P(typed | word) of the marked words that a string may be.

        Args:
          typed: The string, in small letters.
          words: Words to search instead of the lexicon.
        """
        if not self._typed:
            return {}
        key = self._letters_of(typed)
        if words is None:
            first, last = bisect.bisect_left(self._keys, key), bisect.bisect_right(self._keys, key)
            candidates = self._words[first:last]
        else:
            candidates = [word for word in words if self._letters_of(word) == key]
        chance = self.chance(typed)
        return {
            word: chance for word in candidates if word != typed and self._is_typed_as(word, typed)
        }

    def chance(self, typed: str) -> float:
        """Returns P(typed | word) of the marked words that a string may be."""
        return WITHOUT_MARKS if self._typed.keys().isdisjoint(typed) else WITH_SOME_MARKS

    def words_from(self, start: str) -> Iterator[str]:
        """Yields the words with a beginning that `start` may be, and not `start` itself."""
        if not self._typed:
            return
        key = self._letters_of(start)
        first = bisect.bisect_left(self._keys, key)
        for row in range(first, bisect.bisect_left(self._keys, key + _LAST)):
            if not self._words[row].startswith(start) and self._begins_as(self._words[row], start):
                yield self._words[row]

    def _make_letters(self, word: str) -> str:
        """Returns the letters under which a word is filed; the same for all ways to type it."""
        letters = word.translate(self._plain)
        return self._pairs.sub(lambda pair: pair[0][0], letters) if self._pairs else letters

    def _is_typed_as(self, word: str, typed: str) -> bool:
        return len(typed) in self._ends(word, typed)

    def _begins_as(self, word: str, start: str) -> bool:
        """Checks if some beginning of the word can be typed as `start`."""
        return any(
            len(start) in self._ends(word[:size], start)
            for size in range((len(start) + 1) // 2, min(len(word), len(start)) + 1)
        )

    def _ends(self, word: str, typed: str) -> set[int]:
        """Returns the numbers of letters of `typed` that all of `word` may have become."""
        ends = {0}
        for letter in word:
            ways = (letter, *self._typed.get(letter, ()))
            ends = {end + len(way) for end in ends for way in ways if typed.startswith(way, end)}
        return ends


def plain_forms(word: str, language: Language) -> tuple[str, ...]:
    """Returns the ways to type a word without any mark: "fur" and "fuer" for "für".

    A language has one way, or two if a mark can also be typed as a second letter.
    """
    ways = sorted({len(typed) for typed in language.marked}) or [1]
    forms = []
    for size in ways:
        table: dict[str, str] = {}
        for typed, letters in language.marked.items():
            for letter in letters:
                if len(typed) == size or letter not in table:
                    table[letter] = typed
        forms.append("".join(table.get(letter, letter) for letter in word))
    return tuple(forms)
