"""Records the outcome of each strip of a keyboard in use, for the counts of the event log.

A strip on a screen ends when its text changes: a suggestion was accepted, another key was pressed,
or the message was left. It stays in memory until the message is sent or dropped.
"""

import dataclasses
import hashlib
from typing import Any

from tff_keyboard_app.events.event_counts import StripOutcome
from tff_keyboard_app.events.event_log import LiveLog
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import SLOT_RANKS, SLOTS, KeyboardStrip

_MAX_NUMBER = 10**9  # of a strip that the page sent


@dataclasses.dataclass(frozen=True)
class Cursor:
    """The position of a strip: the word in its message, and the typed characters of the word."""

    place: int
    prefix: int


class KeyboardEvents:
    """The events of one keyboard, for a log."""

    def __init__(self, keyboard: AppKeyboard, log: LiveLog):
        self._network = keyboard.predictor.network
        self._log = log
        digest = hashlib.sha256(self._network.path.read_bytes())
        self._model = digest.hexdigest()[:12]

    def cursor(self, text: str) -> Cursor:
        """Returns the position for the text before the cursor."""
        return Cursor(self._network.place_of(text), len(self._network.context_and_prefix(text)[1]))

    def shown(
        self,
        cursor: Cursor,
        words: tuple[str | None, ...],
        latency_us: int,
        slot: int | None = None,
        deleted: bool = False,
    ) -> StripOutcome:
        """Returns a strip that has ended.

        Args:
          cursor: Position of the strip.
          words: Words of the strip, [SLOTS]; None for an empty slot.
          latency_us: Time from the key to the strip.
          slot: Slot of the accepted suggestion; None if none was accepted.
          deleted: Whether the accepted suggestion was taken back.
        """
        ranked = [words[SLOT_RANKS.index(rank)] for rank in range(SLOTS)]
        return StripOutcome(
            place=cursor.place,
            prefix=cursor.prefix,
            words=tuple(" ".join(self._network.words_of(word)) for word in ranked if word),
            rank=None if slot is None else SLOT_RANKS[slot],
            deleted=deleted,
            latency_us=latency_us,
        )

    def add(self, strips: list[StripOutcome], message: str) -> None:
        """Adds the counts of a message to the log; see `LiveLog.add`."""
        self._log.add(self._model, strips, self._network.words_of(message))

    def add_json(self, strips: Any, message: str) -> None:
        """Adds strips that the page sent, like `add`.

        Raises:
          ValueError: If the strips are not valid.
        """
        try:
            self.add([self._from_page(**strip) for strip in strips], message)
        except (TypeError, AttributeError, LookupError):
            raise ValueError("a strip has unknown or missing fields") from None

    def _from_page(
        self,
        *,
        place: int,
        prefix: int,
        words: list[str | None],
        latency_us: int,
        slot: int | None,
        deleted: bool,
    ) -> StripOutcome:
        """Returns the strip that the page reports. Raises `ValueError` if a value is impossible."""
        for number in (place, prefix, latency_us):
            if type(number) is not int or not 0 <= number <= _MAX_NUMBER:
                raise ValueError("place, prefix and latency must be whole numbers >= 0")
        if len(words) != SLOTS:
            raise ValueError(f"a strip must have {SLOTS} positions")
        if slot is not None and not (slot in range(SLOTS) and words[slot]):
            raise ValueError("an accepted suggestion must have been shown")
        if type(deleted) is not bool or (deleted and slot is None):
            raise ValueError("only an accepted suggestion can be deleted")
        return self.shown(Cursor(place, prefix), tuple(words), latency_us, slot, deleted)


class TypedStrips:
    """The strips of the message that is being typed in one place, such as a terminal."""

    def __init__(self, events: KeyboardEvents):
        self._events = events
        self._strips: list[StripOutcome] = []
        self._pending: tuple[Cursor, KeyboardStrip] | None = None

    def show(self, text: str, strip: KeyboardStrip) -> None:
        """Notes that a strip is on the screen, for the text before the cursor."""
        self._pending = (self._events.cursor(text), strip)

    def end(self, slot: int | None = None) -> None:
        """Ends the current strip. `slot` is the slot of the accepted suggestion, if any."""
        if self._pending is None:  # keys came so fast that no strip was shown
            return
        cursor, strip = self._pending
        words = tuple(each.word if each else None for each in strip.slots)
        latency = round(1e6 * strip.latency_seconds)
        self._strips.append(self._events.shown(cursor, words, latency, slot))
        self._pending = None

    def end_by_backspace(self) -> None:
        """Ends the current strip.

        If the previous one was accepted, marks that one as taken back.
        """
        if self._strips and self._strips[-1].rank is not None:
            self._strips[-1] = dataclasses.replace(self._strips[-1], deleted=True)
        self.end()

    def drop(self) -> None:
        """Forgets the strips of a text that was not a message, such as a command."""
        self._strips, self._pending = [], None

    def leave(self, message: str) -> None:
        """Adds the counts of a message that was sent or dropped to the log.

        Raises:
          ProgramError: If the log cannot be written.
        """
        strips = self._strips
        self.drop()
        self._events.add(strips, message)
