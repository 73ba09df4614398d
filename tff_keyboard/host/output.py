"""Output of tasks, which survives a closed pipe: `train | head -1` trains to the end."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from tff_keyboard.storage import errors


class PipeSafeStream:
    """A text stream that passes on its output until the pipe is closed, and then discards it.

    Other errors, such as a full disk in `> file`, are raised as usual.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        """Discards buffered and future output. Raises any error but a closed pipe again."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        self._stream.flush()
        if not isinstance(error, BrokenPipeError):
            raise error


@contextlib.contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Replaces `sys.stdout` and `sys.stderr` by patient streams."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (PipeSafeStream(stream) for stream in before)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def warning_line(message: Warning | str, *unused: object, **unused_too: object) -> str:
    """Formats a warning as one line without control characters, for `warnings.formatwarning`."""
    return f"warning: {errors.printable(str(message), max_characters=None)}\n"
