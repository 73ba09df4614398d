"""A live line on standard error with progress, rate and remaining time."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

_began = time.monotonic()
_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 30.0


class Progress:
    """A progress line for one job, with a rate and, if `total` is known, the remaining time.

    >>> import io
    >>> clock = iter([0.0, 10.0, 40.0]).__next__
    >>> stream = io.StringIO()
    >>> with Progress("read", total=100, unit="MB", stream=stream, clock=clock) as progress:
    ...     progress.update(10, "2 users")
    ...     progress.update(40, "9 users")
    >>> stream.getvalue()
    'read 40/100 MB  40%  1 MB/s  ETA 1:00  9 users\\n'
    """

    def __init__(
        self,
        label: str,
        *,
        total: float | None = None,
        unit: str = "",
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Starts the clock. Writes nothing yet.

        Args:
          label: First word of the line.
          total: Value of `done` at the end, in `unit`, or None if unknown.
          unit: Unit of `done`.
          stream: Where to write; None means standard error.
          clock: Returns seconds.
        """
        self._label = label
        self._total = total
        self._unit = unit
        self._stream = stream or sys.stderr
        self._clock = clock
        self._live = self._stream.isatty()
        self._start = clock()
        self._shown_at = self._start
        self._first = 0.0
        self._width = 0

    def update(self, done: float, note: str = "") -> None:
        """Reports that `done` units are finished. Shows the line if enough time has passed."""
        now = self._clock()
        if now - self._shown_at < (_TERMINAL_SECONDS if self._live else _LOG_SECONDS):
            return
        self._shown_at = now
        self._write(self._line(done, now - self._start, note))

    def start_from(self, done: float) -> None:
        """Sets the units that were finished before the clock started (a resumed job)."""
        self._first = done

    def close(self) -> None:
        """Removes the live line from a terminal. Lines in a log stay."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _line(self, done: float, seconds: float, note: str) -> str:
        """Returns the text of the line, for example "round 5/20  25%  2.1/s  ETA 0:07  note"."""
        unit = f" {self._unit}" if self._unit else ""
        rate = (done - self._first) / seconds if seconds > 0 else 0.0
        parts = [f"{self._label} {_number(done)}"]
        if self._total:
            parts[0] += f"/{_number(self._total)}{unit}"
            parts.append(f"{100 * min(done / self._total, 1):.0f}%")
        else:
            parts[0] += unit
        parts.append(_rate(rate, unit))
        if self._total and rate > 0:
            parts.append(f"ETA {duration(max(self._total - done, 0) / rate)}")
        if note:
            parts.append(note)
        return "  ".join(parts)

    def _write(self, line: str) -> None:
        if self._live:
            # A line that the terminal wraps could not be overwritten.
            line = line[: shutil.get_terminal_size().columns - 1]
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def begin() -> None:
    """Starts the clock of `step` again, in a process that another one has prepared."""
    global _began
    _began = time.monotonic()


def step(sentence: str) -> None:
    """Prints a sentence on standard error, after the seconds since the program began.

    For silent steps that take seconds, such as imports.
    """
    print(f"{time.monotonic() - _began:5.1f} s  {sentence}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Returns a duration as minutes and seconds, with hours if there are any.

    >>> duration(65), duration(3 * 3600 + 62)
    ('1:05', '3:01:02')
    """
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds_left:02d}" if hours else f"{minutes}:{seconds_left:02d}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _rate(rate: float, unit: str) -> str:
    """Returns the rate per second, or per minute if it is below 0.1 per second."""
    if 0 < rate < 0.1:
        return f"{_number(rate * 60)}{unit}/min"
    return f"{_number(rate)}{unit}/s"
