"""The messages that every source yields, and the reporting of unusable lines."""

import collections
import os
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tff_keyboard.storage import errors, json_text

TRAIN = "train"
VALIDATION = "validation"
HELD_OUT = "held_out"
TRAIN_LATER = "train_later"
POPULATIONS = (TRAIN, VALIDATION, HELD_OUT, TRAIN_LATER)
# Text of the clients whom the noise of a private run hides. No count or hash of it is published.
PRIVATE_POPULATIONS = (TRAIN, TRAIN_LATER)


_NOT_ON_A_LINE = re.compile("[\r\n\0]")
_DEFECTS = {"control_character": "control character in a string", "unquoted_id": "unquoted id"}
_BLANKS = str.maketrans("\r\n\0", "   ")


class Message(NamedTuple):
    """One message as typed."""

    user: str  # the user that typed it; not empty
    text: str
    # Population of this user according to the file; None means that a hash decides
    population: str | None = None
    is_later: bool = False  # whether the file marks this message as later than the training


class Typed(NamedTuple):
    """One message and its time, from a source whose rows may be in another order."""

    time: float  # seconds since 1970; 0.0 if unknown
    user: str
    text: str


def clean_text(text: str) -> str:
    """Returns the text on one line, without unpaired surrogates, which JSON and XML may contain.

    >>> clean_text("two\\nlines \\ud83d\\ude00 \\ud83d")
    'two lines 😀 \ufffd'
    """
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.translate(_BLANKS).strip() if _NOT_ON_A_LINE.search(text) else text.strip()


class FileRepairs(NamedTuple):
    """Repaired defects of one kind in one file."""

    path: pathlib.Path
    first_line: int
    defect: str
    number: int

    def described(self, name: str) -> str:
        """Returns one line, with this name for the file."""
        return f"{name}:{self.first_line}: {self.defect} ({self.number:,} in the file)"


class ParserState:
    """The treatment of bad lines, the counts of skipped lines, and the progress of the reader.

    For a bad line, "error" raises and "skip" counts. `on_position` is called from time to time with
    the number of bytes (or items) read from all inputs.
    """

    def __init__(
        self, on_bad_line: str = "error", on_position: Callable[[int], None] = lambda position: None
    ):
        self.skipped: collections.Counter[str] = collections.Counter()
        self.columns: list[str] = []  # the distinct descriptions given to `note_columns`
        self.repairs: list[FileRepairs] = []
        self._on_bad_line = on_bad_line
        self.on_position = on_position

    def bad_line(self, path: str | os.PathLike[str], line: int, reason: str, message: str) -> None:
        """Counts a line that breaks the format, or raises a `DataError` that names it."""
        if self._on_bad_line == "error":
            raise errors.DataError(
                f"{os.fspath(path)}:{line}: {message} "
                "Or set `data.on_bad_line` = 'skip' to skip such lines."
            )
        self.skipped[reason] += 1

    def skip(self, reason: str) -> None:
        """Counts a line that is always left out."""
        self.skipped[reason] += 1

    def note_columns(self, description: str) -> None:
        """Records the columns that are read from a file, as one line for the user."""
        if description not in self.columns:
            self.columns.append(description)

    def note_repairs(
        self, path: str | os.PathLike[str], repairs: Iterable[json_text.Repair]
    ) -> None:
        """Records the repaired defects of a file, one entry for each kind of defect."""
        lines_of_defect: dict[str, list[int]] = {}
        for repair in repairs:
            lines_of_defect.setdefault(repair.defect, []).append(repair.line)
        for defect, lines in lines_of_defect.items():
            self.repairs.append(
                FileRepairs(pathlib.Path(path), lines[0], _DEFECTS[defect], len(lines))
            )
