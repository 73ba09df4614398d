"""The corrections of a message: which of them was taken back, and the words as they were typed.

The page has the same rules in JavaScript (`server/page/corrected.js`). Both pass the cases of
`tests/support/backspace_cases.json`.
"""

import dataclasses


def rejected_part(typed: str, correction: str) -> str:
    """Returns the part of a corrected text that a user rejects by taking the correction back.

    It is the text without the last words that the correction left as they were.

    >>> rejected_part("teh", "the"), rejected_part("were going", "we're going")
    ('teh', 'were')
    >>> rejected_part("to gether", "together"), rejected_part("haber si", "a ver si")
    ('to gether', 'haber')
    """
    words, corrected = typed.split(" "), correction.split(" ")
    while len(words) > 1 and len(corrected) > 1 and words[-1] == corrected[-1]:
        words, corrected = words[:-1], corrected[:-1]
    return " ".join(words)


def is_exempt(typed: str, exempt_words: set[str]) -> bool:
    """Returns whether a text has one of the words whose correction was taken back."""
    return any(f" {word} " in f" {typed} " for word in exempt_words)


@dataclasses.dataclass(frozen=True)
class Place:
    """A corrected word at the cursor.

    Attributes:
      typed: The word as it was typed.
      before, after: Characters of its correction before and after the cursor.
    """

    typed: str
    before: int
    after: int


class CorrectedWords:
    """The words of a message that were corrected, as they were typed.

    >>> words = CorrectedWords()
    >>> words.add("I ", "wsa", "was")
    >>> words.at("I was"), words.at("I w", "as here"), words.at("I was g")
    (Place(typed='wsa', before=3, after=0), Place(typed='wsa', before=1, after=2), None)
    """

    def __init__(self) -> None:
        self._words: list[tuple[str, str, str]] = []

    def add(self, before: str, typed: str, correction: str) -> None:
        """Adds a correction of `typed`, which stands after the text `before`."""
        rejected = rejected_part(typed, correction)
        same = typed.removeprefix(rejected)
        self._words.append((before, rejected, correction.removesuffix(same)))

    def at(self, before: str, after: str = "") -> Place | None:
        """Returns the corrected word that has the cursor in it or at its end; None without one."""
        for start, typed, correction in reversed(self._words):
            size = len(before) - len(start)
            after_cursor = correction[size:]
            if (
                0 < size <= len(correction)
                and before == start + correction[:size]
                and (not after or after.startswith(after_cursor))
                and not after[len(after_cursor) :][:1].isalnum()
            ):
                return Place(typed, size, len(after_cursor) if after else 0)
        return None

    def clear(self) -> None:
        """Forgets all of them."""
        self._words.clear()
