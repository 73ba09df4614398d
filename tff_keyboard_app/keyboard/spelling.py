"""Counts how a keyboard treats misspellings, over pairs of a typed word and the meant word."""

import dataclasses
import pathlib
from collections.abc import Iterable

from tff_keyboard.data.text import casing
from tff_keyboard.storage.errors import DataError
from tff_keyboard_app.keyboard.strip import AppKeyboard

_MAX_BYTES = 100_000_000


@dataclasses.dataclass(frozen=True)
class Pair:
    """A typed word and the word that was meant. Both are equal if it was typed right."""

    typed: str
    meant: str


@dataclasses.dataclass
class SpellingCounts:
    """Numbers of pairs.

    Attributes:
      pairs: Misspelt words.
      corrected: A space changes the typed word into the meant word.
      miscorrected: A space changes the typed word into another word.
      first: The word is corrected, or it is not changed and the meant word is first on the strip.
      on_strip: The word is corrected, or the meant word is on the strip.
      right: Words that were typed right.
      right_changed: Words that were typed right and that a space changes.
    """

    pairs: int = 0
    corrected: int = 0
    miscorrected: int = 0
    first: int = 0
    on_strip: int = 0
    right: int = 0
    right_changed: int = 0


def read_pairs(path: pathlib.Path) -> list[Pair]:
    """Reads lines `typed<TAB>meant`, UTF-8.

    Raises:
      DataError: If the file cannot be read, or a line is not a pair; the message has its number.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DataError(f"{path}: a file of pairs can have at most {_MAX_BYTES:,} bytes.")
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8. Save the file as UTF-8.") from None
    pairs = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts) or len(parts[0].split()) != 1:
            raise DataError(
                f"{path}, line {number}: a pair must be a typed word, a tab and the intended text."
            )
        pairs.append(Pair(*parts))
    if not pairs:
        raise DataError(f"{path}: the file has no pairs.")
    return pairs


def count(keyboard: AppKeyboard, pairs: Iterable[Pair], context: str = "") -> SpellingCounts:
    """Types the first word of each pair after `context`, and counts how the keyboard treats it."""
    counts, code = SpellingCounts(), keyboard.code
    before = f"{context.rstrip()} " if context.strip() else ""
    for pair in pairs:
        strip = keyboard.keyboard_strip(before + pair.typed)
        words_on_strip = [casing.lower(word, code) for word in strip.words]
        meant, typed = casing.lower(pair.meant, code), casing.lower(pair.typed, code)
        correction = (
            casing.lower(strip.correction.word, code) if strip.correction is not None else None
        )
        if meant == typed:
            counts.right += 1
            counts.right_changed += correction is not None and correction != typed
            continue
        counts.pairs += 1
        counts.corrected += correction == meant
        counts.miscorrected += correction is not None and correction != meant
        counts.first += (correction or (words_on_strip[0] if words_on_strip else "")) == meant
        counts.on_strip += meant in words_on_strip or correction == meant
    return counts
