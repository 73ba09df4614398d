"""Removes mentions: names of other users that a chat program inserted after "@".

The user taps a name on a list, and the program inserts it, so nobody typed it. One rule holds for
all exports. "@" begins a mention if it does not follow a letter or digit, and if the text after it
is

- a name that the export lists, or its first words ("@Anna Lee", "@Anna");
- a name between the isolate marks U+2068 and U+2069, as WhatsApp writes it;
- a telephone number of 7 to 15 digits, as WhatsApp writes members without a name;
- a word for all members, such as "@everyone".
"""

import re
from collections.abc import Iterable

MAX_NAME = 100  # characters of a name
_MAX_WORDS = 6  # of the beginning of a name

_ALL_MEMBERS = ("all", "channel", "everyone", "here")
_MARKED = re.compile(
    rf"(?<!\w)@(?:\u2068[^\u2068\u2069]{{0,{MAX_NAME}}}\u2069|\+?\d{{7,15}}(?!\w))"
)


class Mentions:
    """The names that an export may write after "@"."""

    def __init__(self, names: Iterable[object] = ()):
        """Takes the names of an export. Values that are not text are ignored."""
        listed = (name.split() for name in names if isinstance(name, str))
        beginnings = {part for words in listed for part in _beginnings(words)}
        self._names: set[str] = set()
        lengths: dict[str, set[int]] = {}  # by the first letter
        for name in beginnings.union(_ALL_MEMBERS):
            self._names.add(name.casefold())
            lengths.setdefault(name[0].casefold(), set()).add(len(name))
        self._lengths = {first: sorted(some, reverse=True) for first, some in lengths.items()}

    def without(self, text: str) -> str:
        """Returns the text with a blank for each mention. The time is linear in its length.

        >>> Mentions(["Anna Lee"]).without("ask @Anna Lee, @cem or a@anna.org")
        'ask  , @cem or a@anna.org'
        """
        if "@" not in text:
            return text
        text = _MARKED.sub(" ", text)
        parts: list[str] = []
        end = 0
        position = text.find("@")
        while position >= 0:
            length = self._length_at(text, position)
            if length:
                parts += [text[end:position], " "]
                end = position + 1 + length
            position = text.find("@", max(position + 1, end))
        return "".join(parts) + text[end:]

    def _length_at(self, text: str, position: int) -> int:
        """Returns the length of the name after the "@" at a position; 0 if it is not a mention."""
        if position and (text[position - 1].isalnum() or text[position - 1] == "_"):
            return 0
        for length in self._lengths.get(text[position + 1 : position + 2].casefold(), ()):
            end = position + 1 + length
            follows = text[end : end + 1]
            if (
                text[position + 1 : end].casefold() in self._names
                and end <= len(text)
                and not (follows.isalnum() or follows == "_")
            ):
                return length
        return 0


def _beginnings(words: list[str]) -> list[str]:
    """Returns a name and its first words, without those that are too long."""
    counts = {*range(1, min(len(words), _MAX_WORDS) + 1), len(words)} - {0}
    parts = (" ".join(words[:count]) for count in counts)
    return [part for part in parts if len(part) <= MAX_NAME]
