"""What every source yields, and how it says that a line is not usable."""

import collections
import os
from collections.abc import Callable
from typing import NamedTuple

from tff_keyboard.storage import errors

TRAIN = "train"
VALIDATION = "validation"
HELD_OUT = "held_out"
TRAIN_LATER = "train_later"
POPULATIONS = (TRAIN, VALIDATION, HELD_OUT, TRAIN_LATER)


class Message(NamedTuple):
    """One message as typed."""

    user: str  # who typed it; not empty
    text: str
    # Population that the file itself gives this user; None leaves it to the hash
    population: str | None = None
    is_later: bool = False  # whether the file itself puts this message after the time of training


class Reading:
    """How bad lines are treated, what was skipped, and how far the reader is.

    At a bad line "error" raises and "skip" counts. `on_position` is called now and then with the
    bytes (or items) read of all inputs.
    """

    def __init__(
        self, on_bad_line: str = "error", on_position: Callable[[int], None] = lambda position: None
    ):
        self.skipped: collections.Counter[str] = collections.Counter()
        self._on_bad_line = on_bad_line
        self.on_position = on_position

    def bad_line(self, path: str | os.PathLike[str], line: int, reason: str, message: str) -> None:
        """Counts a line that breaks the format, or raises a `DataError` that names it."""
        if self._on_bad_line == "error":
            raise errors.DataError(
                f"{os.fspath(path)}:{line}: {message} "
                "Or leave such lines out with `data.on_bad_line` = 'skip'."
            )
        self.skipped[reason] += 1

    def skip(self, reason: str) -> None:
        """Counts a line that is left out in every case."""
        self.skipped[reason] += 1
