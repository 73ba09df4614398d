"""Defers SIGINT and SIGTERM until the current step is safe to interrupt.

A signal ends the computation of a round immediately. It waits while results are written. A second
signal does not wait. A signal that was ignored at the start (`nohup`, `&` in a script) stays
ignored.
"""

import contextlib
import signal
import threading
import traceback
import types
import warnings
from collections.abc import Iterator

from tff_keyboard.storage.errors import UserError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Raised in the main thread on a signal. Not an `Exception`, so that no handler swallows it."""

    def __init__(self, signal_number: int):
        super().__init__(signal_number)
        self.signal_number = signal_number

    def drop_calls(self) -> None:
        """Clears the interrupted frames, without warnings about coroutines never awaited."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            traceback.clear_frames(self.__traceback__)


class SignalReceived(UserError):
    """A signal that ended work which can be resumed. `exit_code` is 128 + the signal's number.

    The message is one line: the signal's name, then `done`, the progress so far.
    """

    def __init__(self, signal_number: int, state_of_work: str):
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
        super().__init__(
            f"{signal.Signals(signal_number).name} {state_of_work}. "
            "Run the same command again to resume. The result is the same as without interruption."
        )


class Interruption:
    """A context manager that handles both signals. Does nothing outside the main thread."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._may_raise = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *unused_exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Lets a signal raise `Interrupted` in this block, even if it arrived before the block."""
        self._may_raise = True
        try:
            self.check()
            yield
        finally:
            self._may_raise = False

    def check(self) -> None:
        """Raises `Interrupted` if a signal has arrived."""
        if self._received is not None:
            raise Interrupted(self._received)

    def _handle(self, number: int, unused_frame: types.FrameType | None) -> None:
        again = self._received is not None
        self._received = number
        if self._may_raise or again:
            raise Interrupted(number)
