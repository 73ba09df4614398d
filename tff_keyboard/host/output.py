"""Output of tasks: it outlives its reader (`train | head -1` trains to its end), in short lines."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class PatientStream:
    """Hands everything to `stream` until its reader has gone, and nothing after that.

    Other errors, such as a full disk behind `> file`, are raised as ever.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes as a text stream does."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flushes as a text stream does."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        """Whatever the stream still holds, and all that follows, goes nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        self._stream.flush()
        if not isinstance(error, BrokenPipeError):
            raise error


@contextlib.contextmanager
def that_outlives_its_reader() -> Iterator[None]:
    """Makes `sys.stdout` and `sys.stderr` patient."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (PatientStream(stream) for stream in before)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def warning_line(message: Warning | str, *unused: object, **unused_too: object) -> str:
    """For `warnings.formatwarning`: a user has no use for the place in our source."""
    return f"warning: {' '.join(str(message).split())}\n"
