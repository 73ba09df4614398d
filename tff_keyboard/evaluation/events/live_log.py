"""The event log of a keyboard that is typed with.

A strip's line says where the word stood that was typed in the end, so strips wait in memory until
their message is sent or dropped; then their lines are added to the log together, without a word.
"""

import contextlib
import dataclasses
import datetime
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from tff_keyboard.evaluation.events import event_log
from tff_keyboard.evaluation.events.event_log import Outcome, Strip
from tff_keyboard.storage import exclusive_file, files
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
    """A strip whose message is still being typed; other fields as in `Strip`."""

    model: str
    place: int
    prefix: int
    words: tuple[str, ...]  # suggestions, normalised, the best first. Never written.
    outcome: Outcome
    rank: int | None = None
    deleted: bool = False
    latency_us: int = 0


class LiveLog:
    """A log that is added to, for its owner's eyes only (mode 0600). Not thread-safe."""

    def __init__(self, path: pathlib.Path, next_message: int = 0):
        self._path = path
        self._next_message = next_message

    def add(self, shown: Iterable[Shown], message: Sequence[str]) -> int:
        """Adds the strips of a message, whose normalised words are `message`; returns how many.

        Raises `ValueError` if a strip breaks a rule of the log; `ProgramError` if the log cannot be
        written; it is as it was.
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
    """A log, new or to be gone on with, that no other process may add to meanwhile.

    A last line that a kill cut short is removed. Raises `UsageError` if it cannot be written there,
    or another keyboard writes it; `DataError` if what is in it is no log.
    """
    holding = exclusive_file.held(
        path,
        cannot=lambda why: UsageError(
            f"{path}: no event log can be kept there ({why}). Give another place."
        ),
        taken=UsageError(
            f"{path}: another keyboard writes this log. Close it, or give another file."
        ),
    )
    with holding as descriptor:
        os.fchmod(descriptor, files.OWNER_ONLY)
        messages = [strip.message for strip in event_log.read_log(path)]
        _cut_last_line(descriptor)
        yield LiveLog(path, max(messages, default=-1) + 1)


def _cut_last_line(descriptor: int) -> None:
    """Removes what stands behind the last line end."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - event_log.LONGEST_LINE)
    end = os.pread(descriptor, size - begin, begin).rfind(b"\n") + 1
    os.ftruncate(descriptor, begin + end)


def _strip(shown: Shown, message: Sequence[str], number: int, hour: str) -> Strip:
    word = message[shown.place] if shown.place < len(message) else None
    match = shown.words.index(word) if word in shown.words else None
    kept = {name: value for name, value in vars(shown).items() if name != "words"}
    return Strip(hour=hour, message=number, shown=len(shown.words), match=match, **kept)
