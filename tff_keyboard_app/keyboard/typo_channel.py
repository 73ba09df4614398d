"""Computes P(typed | meant), the probability of typing one word for another, for one slip.

    none           0.95
    swapped        two neighbouring letters                      0.010 / places
    left out       a letter; one of a double letter is likelier  0.010 / places (doubles 0.020)
    added          the letter once more or a neighbouring key    0.008 / (places x keys)
    another        a neighbouring key                            0.015 / (places x keys)
                   a vowel for a vowel                           0.008 / (places x other vowels)

The probabilities are set by hand. Their order follows studies of phone typing; they are not
fitted to text of users. Missing marks are not slips of the finger (`missing_marks`). This is a
noisy channel after Kernighan, Church and Gale 1990, with the keys of the language. Letters without
a key have no slips. If the touches are known, `touches.py` gives the chances of neighbouring keys.
"""

from collections.abc import Iterator, Mapping, Sequence

from tff_keyboard_app.keyboard.languages import Language

NO_SLIP = 0.95
_SWAPPED = 0.010
_LEFT_OUT = 0.010
_LEFT_OUT_DOUBLE = 0.020
_ADDED = 0.008
NEIGHBOUR = 0.015
_VOWEL = 0.008

_INDENTS = (0.0, 0.25, 0.75)  # of a row, in keys
_DIGITS = "1234567890"
_REACH = 1.3  # keys; takes in the six around a key


class TypoChannel:
    """Slips on the keys of a language.

    Attributes:
      neighbours: Letter -> letters on the keys around it; none for a letter on a held key.
      below: Digit -> letters on the keys below it, on a layout with a row of digits.
    """

    def __init__(self, language: Language):
        on_held_keys = dict.fromkeys("".join(language.held.values()), "")
        self.neighbours = _neighbours(language.keys) | on_held_keys
        first = language.keys[0]
        self.below = {digit: first[max(0, i - 1) : i + 1] for i, digit in enumerate(_DIGITS)}
        self._vowels = language.vowels

    def meant_words(
        self, typed: str, touched: Sequence[Mapping[str, float] | None] = ()
    ) -> Iterator[tuple[str, float]]:
        """Yields `(meant, P(typed | meant))` for strings one slip away, some more than once.

        `touched` has, for each typed letter, the keys that its touch may have meant
        (`TouchModel.ratios`). They take the place of the neighbouring keys.

        >>> from tff_keyboard_app.keyboard.languages import LANGUAGES
        >>> found = dict(TypoChannel(LANGUAGES["en"]).meant_words("teh"))
        >>> round(found["the"], 4), "tep" in found, round(found["tesh"], 4)
        (0.005, False, 0.0025)
        """
        near, vowels = self.neighbours, self._vowels
        for i in range(len(typed) + 1):
            head, tail = typed[:i], typed[i:]
            yield from self._letter_missing(head, tail)
            if not tail:
                continue
            letter, after_letter = tail[0], tail[1:]
            if head and letter in (head[-1], *near.get(head[-1], "")):
                keys = 1 + len(near.get(head[-1], ""))
                yield head + after_letter, _ADDED / (len(typed) * keys)
            if after_letter and after_letter[0] != letter:
                yield (
                    head + after_letter[0] + letter + after_letter[1:],
                    _SWAPPED / (len(typed) - 1),
                )
            touch = touched[i] if touched else None
            if touch is not None:
                for other, ratio in touch.items():
                    if other in near:
                        yield head + other + after_letter, NO_SLIP * ratio
            else:
                for other in (*near.get(letter, ""), *self.below.get(letter, "")):
                    yield head + other + after_letter, NEIGHBOUR / (len(typed) * len(near[other]))
            if letter in vowels:
                for other in vowels.replace(letter, ""):
                    yield head + other + after_letter, _VOWEL / (len(typed) * (len(vowels) - 1))

    def _letter_missing(self, head: str, tail: str) -> Iterator[tuple[str, float]]:
        """Yields the strings with one more letter after `head`, and their probabilities."""
        num_gaps = len(head) + len(tail) + 1
        for letter in self.neighbours:
            is_double = letter in (head[-1:], tail[:1])
            yield head + letter + tail, (_LEFT_OUT_DOUBLE if is_double else _LEFT_OUT) / num_gaps


def _neighbours(rows: tuple[str, ...]) -> dict[str, str]:
    """Returns letter -> the letters of the keys around it, given the rows of the keyboard."""
    positions = {
        letter: (column + indent, row)
        for row, (letters, indent) in enumerate(zip(rows, _INDENTS, strict=True))
        for column, letter in enumerate(letters)
    }
    return {
        letter: "".join(
            other
            for other, (u, v) in positions.items()
            if other != letter and (x - u) ** 2 + (y - v) ** 2 <= _REACH**2
        )
        for letter, (x, y) in positions.items()
    }
