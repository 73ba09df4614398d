"""What became of each strip of a keyboard that is typed with, for the event log.

A strip on a screen ends when its text changes: a suggestion was accepted, another key was pressed,
or the message was left. What was on it stays in memory until the message is sent or dropped.
"""

import dataclasses
from typing import Any, get_args

from tff_keyboard.evaluation.events.event_log import Outcome
from tff_keyboard.evaluation.events.live_log import LiveLog, Shown
from tff_keyboard.evaluation.events.replay import model_digest
from tflite_export.keyboard.strip import StripKeyboard
from tflite_export.keyboard.typing_session import SLOT_RANKS, SLOTS, SlottedStrip


@dataclasses.dataclass(frozen=True)
class Cursor:
    """Where a strip stands: place of the word in its message, and characters of it typed so far."""

    place: int
    prefix: int


class KeyboardEvents:
    """What one keyboard adds to a log."""

    def __init__(self, keyboard: StripKeyboard, log: LiveLog):
        self._network = keyboard.predictor.network
        self._log = log
        self._model = model_digest(self._network.path.read_bytes())

    def cursor(self, text: str) -> Cursor:
        """Of the text before the cursor."""
        return Cursor(self._network.place_of(text), len(self._network.context_and_prefix(text)[1]))

    def shown(
        self,
        cursor: Cursor,
        words: tuple[str | None, ...],
        latency_us: int,
        outcome: Outcome,
        slot: int | None = None,
        deleted: bool = False,
    ) -> Shown:
        """A strip of [SLOTS] words that has ended, None an empty place; `deleted`: taken back."""
        ranked = [words[SLOT_RANKS.index(rank)] for rank in range(SLOTS)]
        return Shown(
            model=self._model,
            place=cursor.place,
            prefix=cursor.prefix,
            words=tuple(" ".join(self._network.words_of(word)) for word in ranked if word),
            outcome=outcome,
            rank=None if slot is None else SLOT_RANKS[slot],
            deleted=deleted,
            latency_us=latency_us,
        )

    def add(self, shown: list[Shown], message: str) -> int:
        """Adds the strips of a message to the log; see `LiveLog.add`."""
        return self._log.add(shown, self._network.words_of(message))

    def add_json(self, strips: Any, message: str) -> int:
        """As `add`, for the strips that the page kept; a `ValueError` where it sends none such."""
        try:
            return self.add([self._from_page(**strip) for strip in strips], message)
        except (TypeError, AttributeError, LookupError):
            raise ValueError("a strip has other fields than the page sends") from None

    def _from_page(
        self,
        *,
        place: int,
        prefix: int,
        words: list[str | None],
        latency_us: int,
        outcome: Outcome,
        slot: int | None,
        deleted: bool,
    ) -> Shown:
        if len(words) != SLOTS or outcome not in get_args(Outcome):
            raise ValueError("a strip has three places and a known outcome")
        if slot is not None and not (slot in range(SLOTS) and words[slot]):
            raise ValueError("what was accepted must have been shown")
        return self.shown(Cursor(place, prefix), tuple(words), latency_us, outcome, slot, deleted)


class TypedStrips:
    """The strips of the message that is being typed in one place, such as a terminal."""

    def __init__(self, events: KeyboardEvents):
        self._events = events
        self._strips: list[Shown] = []
        self._pending: tuple[Cursor, SlottedStrip] | None = None

    def show(self, text: str, strip: SlottedStrip) -> None:
        """A strip is on the screen, for the text before the cursor."""
        self._pending = (self._events.cursor(text), strip)

    def end(self, outcome: Outcome, slot: int | None = None) -> None:
        """It made place for the next one."""
        if self._pending is None:  # it was not shown: keys came too fast
            return
        cursor, strip = self._pending
        words = tuple(each.word if each else None for each in strip.slots)
        latency = round(1e6 * strip.latency_seconds)
        self._strips.append(self._events.shown(cursor, words, latency, outcome, slot))
        self._pending = None

    def end_by_backspace(self) -> None:
        """As `end`; right after a suggestion that was accepted, it takes that back."""
        if self._strips and self._strips[-1].outcome == "accepted":
            self._strips[-1] = dataclasses.replace(self._strips[-1], deleted=True)
        self.end("typed")

    def drop(self) -> None:
        """What was typed was no message; nothing of it goes to the log."""
        self._strips, self._pending = [], None

    def leave(self, message: str) -> None:
        """The message was sent or dropped, and goes to the log.

        Raises `ProgramError` if the log cannot be written.
        """
        strips = self._strips
        self.drop()
        self._events.add(strips, message)
