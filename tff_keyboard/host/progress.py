"""A live line on the standard error stream: how far, how fast, and how much longer."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

_BEGAN = time.monotonic()
_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 30.0


class Progress:
    """Shows one job with a rate and, where `total` is known, an ETA.

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
        """Starts the clock; writes nothing yet.

        `total` is the value of `done` at the end, in `unit`; None when not known.
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
        """Reports that `done` units are finished since the beginning; shows it if it is time to."""
        now = self._clock()
        if now - self._shown_at < (_TERMINAL_SECONDS if self._live else _LOG_SECONDS):
            return
        self._shown_at = now
        self._write(self._line(done, now - self._start, note))

    def start_from(self, done: float) -> None:
        """Says that `done` units were finished before the clock started (a resumed job)."""
        self._first = done

    def close(self) -> None:
        """Takes the live line away; what a log has stays."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _line(self, done: float, seconds: float, note: str) -> str:
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
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def step(sentence: str) -> None:
    """Says on stderr what begins now, after the seconds since the program began.

    For what is silent and takes seconds, as imports do.
    """
    print(f"{time.monotonic() - _BEGAN:5.1f} s  {sentence}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours too.

    >>> duration(65), duration(3 * 3600 + 62)
    ('1:05', '3:01:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _rate(rate: float, unit: str) -> str:
    """The rate per second; per minute where that would be below one, and so hard to read."""
    if 0 < rate < 0.1:
        return f"{_number(rate * 60)}{unit}/min"
    return f"{_number(rate)}{unit}/s"
