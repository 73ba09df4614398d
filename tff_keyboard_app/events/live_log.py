"""The event log of a keyboard in use.

The line of a strip contains the position of the word that was typed in the end. Therefore strips
stay in memory until their message is sent or dropped. Then their lines are added to the log
together, without their words.
"""

import contextlib
import dataclasses
import datetime
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from tff_keyboard.storage import exclusive_file, files
from tff_keyboard.storage.errors import UsageError
from tff_keyboard_app.events import event_log
from tff_keyboard_app.events.event_log import Outcome, StripRecord


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnsentStrip:
    """A strip whose message is still being typed. Other fields are as in `StripRecord`."""

    model: str
    place: int
    prefix: int
    words: tuple[str, ...]  # suggestions, normalised, best first; never written to the log
    outcome: Outcome
    rank: int | None = None
    deleted: bool = False
    latency_us: int = 0


class LiveLog:
    """A log to which strips are added, with mode 0600. Not thread-safe."""

    def __init__(self, path: pathlib.Path, next_message: int = 0):
        self._path = path
        self._next_message = next_message

    def add(self, shown: Iterable[UnsentStrip], message: Sequence[str]) -> int:
        """Adds the strips of a message with these normalised words, and returns their number.

        Raises:
          ValueError: If a strip breaks a rule of the log.
          ProgramError: If the log cannot be written. It stays unchanged.
        """
        hour = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H")
        strips = [_strip(each, message, self._next_message, hour) for each in shown]
        if strips:
            lines = b"".join(map(event_log.line_of, strips))
            files.append(self._path, lines, mode=files.OWNER_ONLY)
            self._next_message += 1
        return len(strips)


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[LiveLog]:
    """Opens a new or existing log, and locks it against other processes.

    A last line that a kill has cut is removed.

    Raises:
      UsageError: If the log cannot be written there, or another keyboard writes it.
      DataError: If the file is not a log.
    """
    holding = exclusive_file.held(
        path,
        cannot=lambda why: UsageError(
            f"{path}: cannot write an event log ({why}). Choose another file."
        ),
        taken=UsageError(
            f"{path}: another keyboard is using this log. Close it, or choose another file."
        ),
    )
    with holding as descriptor:
        os.fchmod(descriptor, files.OWNER_ONLY)
        messages = [strip.message for strip in event_log.read_log(path)]
        _cut_last_line(descriptor)
        yield LiveLog(path, max(messages, default=-1) + 1)


def _cut_last_line(descriptor: int) -> None:
    """Removes the bytes after the last line feed."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - event_log.LONGEST_LINE)
    end = os.pread(descriptor, size - begin, begin).rfind(b"\n") + 1
    os.ftruncate(descriptor, begin + end)


def _strip(shown: UnsentStrip, message: Sequence[str], number: int, hour: str) -> StripRecord:
    word = message[shown.place] if shown.place < len(message) else None
    match = shown.words.index(word) if word in shown.words else None
    fields = {name: value for name, value in vars(shown).items() if name != "words"}
    return StripRecord(hour=hour, message=number, shown=len(shown.words), match=match, **fields)
