"""The keyboard in a terminal: a strip below the line, updated with every key.

With an owner, a message is learnt after it is sent, when Backspace can no longer take it back.
`/forget WORDS` and `/forget-all` delete learnt words, and `/private` switches learning off until it
is sent again. A line that begins with "/" is a command, and its words are not corrected.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator

from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_app.keyboard import typing_session
from tff_keyboard_app.keyboard.multilingual import AnyKeyboard
from tff_keyboard_app.keyboard.strip_events import TypedStrips
from tff_keyboard_app.keyboard.user_history import UserHistory

HELP = "Tab: middle suggestion. Esc 1, 2, 3: left, middle, right. Enter: send. Ctrl-D: quit."
FORGET, FORGET_ALL, PRIVATE = "/forget", "/forget-all", "/private"
OWNER_HELP = (
    f"The keyboard learns the words that you send. Send {FORGET} WORDS or {FORGET_ALL} to forget "
    f"words, and {PRIVATE} to turn learning off and on."
)

_BACKSPACE = ("\x7f", "\x08")
_END = ("", "\x03", "\x04")  # end of input, Ctrl-C, Ctrl-D
_ESCAPE = "\x1b"
_MIDDLE = typing_session.SLOT_RANKS.index(0)
_SLOT_WIDTH = 18


def run(
    keyboard: AnyKeyboard,
    read_key: Callable[[], str],
    write: Callable[[str], object],
    owner: UserHistory | None = None,
    strips: TypedStrips | None = None,
) -> typing_session.TypingSession:
    """Types until the end of input, and returns the session.

    Args:
      keyboard: The keyboard.
      read_key: Returns the next character, or "" at the end of input.
      write: Writes to the terminal.
      owner: Learns the sent messages.
      strips: Records the strips for the counts of the event log.
    """
    session = typing_session.TypingSession()
    learns = owner is not None and owner.can_learn
    write("\n".join([HELP, *([OWNER_HELP] if learns else [])]) + "\n\n\n")
    line = _Line(session, owner, strips)
    while True:
        strip = session.with_typed(keyboard.keyboard_strip(session.text))
        if line.is_command:  # a correction would change the words to forget
            strip = dataclasses.replace(strip, correction=None)
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
            elif digit in ("[", "O"):  # an arrow, or another key of several bytes
                while (key := read_key()) not in _END and not "@" <= key <= "~":
                    pass
        elif key in _BACKSPACE:
            line.backspace()
        elif key in ("\r", "\n"):
            write(line.send(strip))
        elif key.isprintable():
            line.press(key, strip)
        write(line.learn())
    if session.text:
        write(line.send())
    write(line.learn(ended=True))
    write(f"\n{session.summary()}\n")
    return session


@contextlib.contextmanager
def raw_keys() -> Iterator[Callable[[], str]]:
    """Yields a function that reads standard input key by key; a pipe is read as it is."""
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
    """The line being typed. Keys change it, the learnt words, and the event log."""

    def __init__(
        self,
        session: typing_session.TypingSession,
        owner: UserHistory | None,
        strips: TypedStrips | None,
    ):
        self._session = session
        self._owner = owner if owner is not None and owner.can_learn else None
        self._strips = strips

    @property
    def is_command(self) -> bool:
        return self._owner is not None and self._session.text.lstrip().startswith("/")

    def show(self, strip: typing_session.KeyboardStrip) -> None:
        """Tells the event log that the strip is shown."""
        if self._strips is not None:
            self._strips.show(self._session.text, strip)

    def accept(self, strip: typing_session.KeyboardStrip, slot_index: int) -> None:
        slot = strip.slots[slot_index]
        if slot is not None:
            self._end(slot_index)
            self._session.accept(slot, strip.correction)

    def press(self, key: str, strip: typing_session.KeyboardStrip) -> None:
        self._end()
        self._session.press(key, strip.correction)

    def backspace(self) -> None:
        if self._strips is not None:
            self._strips.end_by_backspace()
        self._session.backspace()

    def learn(self, *, ended: bool = False) -> str:
        """Learns messages that can no longer be taken back.

        Returns a line about an error, or "".
        """
        try:
            for sent in self._session.settled(ended=ended):
                if self._owner is not None:
                    self._owner.learn(sent.text, sent.exempt_words, learn=sent.learn)
        except ProgramError as error:
            return f"\n{error}\n\n\n"
        return ""

    def send(self, strip: typing_session.KeyboardStrip | None = None) -> str:
        """Sends the message or runs the command. Returns a line about an error, or ""."""
        text = self._session.text.strip()
        self._end()
        try:
            if self._owner is not None and text == FORGET_ALL:
                self._drop()
                self._owner.forget_all()
            elif self._owner is not None and text.startswith(f"{FORGET} "):
                self._drop()
                return (
                    f"\n{_answer_to_forget(*self._owner.forget(text.removeprefix(FORGET)))}\n\n\n"
                )
            elif self._owner is not None and text == PRIVATE:
                self._drop()
                self._session.learn = not self._session.learn
            elif self.is_command:
                self._drop()
                commands = f"{FORGET} WORDS, {FORGET_ALL} or {PRIVATE}"
                return f"\nUnknown command. Commands: {commands}.\n\n\n"
            else:
                message = self._session.send(strip.correction if strip is not None else None)
                if self._strips is not None and self._session.learn:
                    self._strips.leave(message)
                elif self._strips is not None:
                    self._strips.drop()
        except ProgramError as error:
            return f"\n{error}\n\n\n"
        return ""

    def _drop(self) -> None:
        self._session.drop()
        if self._strips is not None:
            self._strips.drop()

    def _end(self, slot: int | None = None) -> None:
        """Tells the event log that the strip has ended, with the slot that was tapped, if any."""
        if self._strips is not None:
            self._strips.end(slot)


def _answer_to_forget(forgotten: list[str], unknown: list[str]) -> str:
    """Returns the answer to a command to forget."""
    groups = [("Forgotten", forgotten), ("Not remembered", unknown)]
    return " ".join(
        f"{what}: {', '.join(map(_printable, words))}." for what, words in groups if words
    )


def _printable(text: str) -> str:
    """Removes characters that are not printable, because words may contain terminal codes."""
    return "".join(filter(str.isprintable, text))


def _screen(session: typing_session.TypingSession, strip: typing_session.KeyboardStrip) -> str:
    """Returns codes that move up three lines and rewrite them: text, strip, counter."""
    words = [_printable(slot.word)[:_SLOT_WIDTH] if slot else "" for slot in strip.slots]
    cells = " | ".join(f"{word:^{_SLOT_WIDTH}}" for word in words)
    clear, typed = "\x1b[K", _printable(session.text)[-70:]
    return (
        f"\x1b[2A\r{clear}{'' if session.learn else '(not learnt) '}> {typed}\n"
        f"{clear}[ {cells} ]  {1000 * strip.latency_seconds:.2f} ms\n"
        f"{clear}  {session.summary()}"
    )
