"""The keyboard in a terminal: a strip below the line, updated with every key.

With an owner, messages are learnt as they are sent; `/forget WORDS` and `/forget-all` take back.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator

from tff_keyboard.events.event_log import Outcome
from tff_keyboard.storage.errors import ProgramError
from tflite_export import typing_session
from tflite_export.mannered_keyboard import MannerlyKeyboard
from tflite_export.owner import Owner
from tflite_export.strip_events import TypedStrips

HELP = "Tab: middle suggestion. Esc 1, 2, 3: left, middle, right. Enter: send. Ctrl-D: end."
FORGET, FORGET_ALL = "/forget", "/forget-all"
OWNER_HELP = f"What you send is learnt. Send {FORGET} WORDS or {FORGET_ALL} to take it back."

_BACKSPACE = ("\x7f", "\x08")
_END = ("", "\x03", "\x04")  # end of input, Ctrl-C, Ctrl-D
_ESCAPE = "\x1b"
_MIDDLE = typing_session.SLOT_RANKS.index(0)
_SLOT_WIDTH = 18


def run(
    keyboard: MannerlyKeyboard,
    read_key: Callable[[], str],
    write: Callable[[str], object],
    owner: Owner | None = None,
    strips: TypedStrips | None = None,
) -> typing_session.TypingSession:
    """Types until the end of input.

    Args:
      keyboard: What suggests.
      read_key: Returns the next character, "" at the end.
      write: Shows text.
      owner: Who learns what is sent.
      strips: Where strips and what became of them go.

    Returns:
      What was typed and what it cost.
    """
    session = typing_session.TypingSession()
    learns = owner is not None and owner.can_learn
    write("\n".join([HELP, *([OWNER_HELP] if learns else [])]) + "\n\n\n")
    line = _Line(session, owner, strips)
    while True:
        strip = keyboard.strip_for(session.text)
        line.show(strip)
        write(_screen(session, strip))
        key = read_key()
        if key in _END:
            break
        if key == "\t":
            line.accept(strip, _MIDDLE)
        elif key == _ESCAPE:
            digit = read_key()
            if digit in ("1", "2", "3"):
                line.accept(strip, int(digit) - 1)
        elif key in _BACKSPACE:
            line.backspace()
        elif key in ("\r", "\n"):
            write(line.send())
        elif key.isprintable():
            line.press(key, strip)
    if session.text:
        write(line.send())
    write(f"\n{session.summary()}\n")
    return session


@contextlib.contextmanager
def raw_keys() -> Iterator[Callable[[], str]]:
    """Reads standard input a key at a time; a pipe as it is."""
    if not sys.stdin.isatty():
        yield lambda: sys.stdin.read(1)
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield lambda: sys.stdin.read(1)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class _Line:
    """The line that is typed: what a key does to it, to what is learnt and to the log."""

    def __init__(
        self,
        session: typing_session.TypingSession,
        owner: Owner | None,
        strips: TypedStrips | None,
    ):
        self._session = session
        self._owner = owner if owner is not None and owner.can_learn else None
        self._strips = strips

    def show(self, strip: typing_session.SlottedStrip) -> None:
        if self._strips is not None:
            self._strips.show(self._session.text, strip)

    def accept(self, strip: typing_session.SlottedStrip, place: int) -> None:
        slot = strip.slots[place]
        if slot is not None:
            self._end("accepted", place)
            self._session.accept(slot)

    def press(self, key: str, strip: typing_session.SlottedStrip) -> None:
        self._end("typed")
        self._session.press(key, strip.correction)

    def backspace(self) -> None:
        if self._strips is not None:
            self._strips.end_by_backspace()
        self._session.backspace()

    def send(self) -> str:
        """Sends the message, or does what it commands; a line where something went wrong."""
        text = self._session.text.strip()
        self._end("left")
        try:
            if self._owner is not None and text == FORGET_ALL:
                self._drop()
                self._owner.forget_all()
            elif self._owner is not None and text.startswith(f"{FORGET} "):
                self._drop()
                self._owner.forget(text.removeprefix(FORGET))
            elif self._owner is not None and text.startswith("/"):
                self._drop()
                return f"\nNo command is called so. Send {FORGET} WORDS or {FORGET_ALL}.\n\n\n"
            else:
                self._session.send()
                if self._owner is not None:
                    self._owner.learn(text)
                if self._strips is not None:
                    self._strips.leave(text)
        except ProgramError as error:
            return f"\n{error}\n\n\n"
        return ""

    def _drop(self) -> None:
        self._session.drop()
        if self._strips is not None:
            self._strips.drop()

    def _end(self, outcome: Outcome, slot: int | None = None) -> None:
        if self._strips is not None:
            self._strips.end(outcome, slot)


def _screen(session: typing_session.TypingSession, strip: typing_session.SlottedStrip) -> str:
    """Moves up three lines and writes them anew: text, strip, counter."""
    words = [slot.word[:_SLOT_WIDTH] if slot else "" for slot in strip.slots]
    cells = " | ".join(f"{word:^{_SLOT_WIDTH}}" for word in words)
    clear = "\x1b[K"
    return (
        f"\x1b[2A\r{clear}> {session.text[-70:]}\n"
        f"{clear}[ {cells} ]  {1000 * strip.latency_seconds:.2f} ms\n"
        f"{clear}  {session.summary()}"
    )
