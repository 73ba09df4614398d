"""Words that a keyboard never suggests. They can be typed, and the model may use them as context.

There is one packaged list for each language, `blocklists/LANGUAGE.txt`, and users can add files of
the same form: one word a line, `word*` for all words with this beginning, `#` for remarks.
"""

import pathlib
from collections.abc import Iterable

from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.keyboard.typed_cache import typed_cache

_FOLDER = pathlib.Path(__file__).parent / "blocklists"
_MAX_BYTES = 1_000_000


class Blocklist:
    """A set of blocked words and blocked beginnings of words.

    >>> blocklist = Blocklist(["damn", "heck*"])
    >>> [word in blocklist for word in ("Damn", "damned", "heckler", "he")]
    [True, False, True, False]

    Args:
      entries: Words, or beginnings of words that end with `*`.

    Raises:
      ValueError: If an entry contains white space, or a `*` that is not at its end.
    """

    def __init__(self, entries: Iterable[str] = ()):
        self._words: set[str] = set()
        self._starts: set[str] = set()
        for entry in entries:
            folded = entry.casefold()
            start = folded.removesuffix("*")
            if not start or "*" in start or any(map(str.isspace, start)):
                raise ValueError("an entry must be one word, or a prefix and `*`")
            (self._starts if folded.endswith("*") else self._words).add(start)
        self._longest = max(map(len, self._starts), default=0)
        self._holds_lately = typed_cache(self._holds, maxsize=4_000)

    def __contains__(self, word: str) -> bool:
        return self._holds_lately(word)

    def _holds(self, word: str) -> bool:
        """Checks if a word, in any case, is blocked or begins with a blocked beginning."""
        folded = word.casefold()
        return folded in self._words or any(
            folded[:length] in self._starts
            for length in range(1, min(self._longest, len(folded)) + 1)
        )


def entries_of(path: pathlib.Path) -> list[str]:
    """Returns the entries of a file.

    Raises:
      ExportError: If the file cannot be read, is too large or not UTF-8, or a line is not an entry.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror}).") from None
    if len(data) > _MAX_BYTES:
        raise ExportError(
            f"{path}: a blocklist can have at most {_MAX_BYTES} bytes, got {len(data)}."
        )
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ExportError(f"{path}: not UTF-8. Save the blocklist as UTF-8.") from None
    entries = []
    for number, line in enumerate(lines, start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        try:
            Blocklist([entry])
        except ValueError as error:
            raise ExportError(f"{path}, line {number}: {error}.") from None
        entries.append(entry)
    return entries


def packaged_entries(language: str) -> list[str]:
    """Returns the entries of the packaged list of a language; none for an unknown language."""
    path = _FOLDER / f"{language}.txt"
    return entries_of(path) if path.is_file() else []
