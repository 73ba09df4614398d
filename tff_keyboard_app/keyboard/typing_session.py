"""Types with suggestions: positions on the strip, the effect of a tap, and the keystrokes saved.

The terminal (`terminal_keyboard`) uses `TypingSession`. The web page has these rules in JavaScript
(`server/page/typing.js`) and shares only the positions of the strip. Both pass the cases of
`tests/support/backspace_cases.json`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from tff_keyboard.data.text import casing
from tff_keyboard_app.keyboard import corrected_words
from tff_keyboard_app.keyboard.corrected_words import CorrectedWords
from tff_keyboard_app.keyboard.emoji import is_emoji, length_of_last
from tflite_export.runtime.hybrid_keyboard import Keyboard

SLOTS = 3

# Characters that take the place of the space that a suggestion inserted, and all that end a word,
# so that it is corrected. Two quotation marks of `CLOSING` may also open a quotation: then no word
# is directly before them, and the space of a suggestion stays.
_ATTACHED = " .,!?;:)\u2026\u201d\u00bb"
CLOSING = f'{_ATTACHED}<-"\u201c'

# Position on the strip -> rank: the best word is in the centre, as on phones.
SLOT_RANKS = (1, 0, 2)

# Maximum number of typed characters for one normalised character ("e" + two accents), and the
# number of further characters that are tried.
_CHARACTERS_PER_NORMALISED = 3
_MORE_CHARACTERS = 8

_LONGEST_PREFIX = 100
_LONGEST_REST = 40  # characters of a word after the cursor


@dataclasses.dataclass(frozen=True)
class Slot:
    """One position of the strip."""

    word: str  # the word, in the case of its typed beginning
    # Probability of the word after the context, without regard to the prefix; for a correction, the
    # probability that it was meant
    probability: float
    replaces: int  # characters before the cursor that a tap removes
    inserts: str  # text that a tap inserts: the word and a space
    # Characters after the cursor that a tap removes: the rest of the word, and a space after it
    replaces_after: int = 0

    def applied_to(self, text: str) -> str:
        """Returns the text before the cursor after a tap."""
        return text[: len(text) - self.replaces] + self.inserts


@dataclasses.dataclass(frozen=True)
class KeyboardStrip:
    """The strip as shown: `SLOTS` positions, None for an empty one."""

    slots: tuple[Slot | None, ...]
    latency_seconds: float  # seconds from the key to the suggestions
    # Correction of the typed word that a space applies. Its space stands for the typed character of
    # `CLOSING`, or for an emoji.
    correction: Slot | None = None

    @property
    def ranked(self) -> tuple[Slot, ...]:
        """The slots with a word, the best first; the best one is shown in the middle."""
        ranked = sorted(zip(SLOT_RANKS, self.slots, strict=True), key=lambda pair: pair[0])
        return tuple(slot for _, slot in ranked if slot is not None)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of `ranked`."""
        return tuple(slot.word for slot in self.ranked)


def placed(slots: Sequence[Slot], correction: Slot | None, seconds: float) -> KeyboardStrip:
    """Returns the strip of suggestions, the best first, each in its place."""
    places = (slots[rank] if rank < len(slots) else None for rank in SLOT_RANKS)
    return KeyboardStrip(tuple(places), seconds, correction)


class CorrectsText(Protocol):
    """A keyboard as a `TypingSession` uses it."""

    def keyboard_strip(self, text: str) -> KeyboardStrip:
        """Returns the strip for the text before the cursor."""
        ...


@dataclasses.dataclass(frozen=True)
class RestOfWord:
    """The text after the cursor that a suggestion replaces.

    `letters` is the length of the word's rest, `characters` that with its space.
    """

    letters: int
    characters: int


def typed_fragment(predictor: Keyboard, text: str, prefix: str) -> str:
    """Returns the end of `text`, as typed, that was normalised to `prefix`.

    Returns "" for a prefix of more than 100 characters, because no word is as long and each
    attempted length costs a pass over the fragment.
    """
    if not 0 < len(prefix) <= _LONGEST_PREFIX:
        return ""
    if text.endswith(prefix) and predictor.context_and_prefix(prefix) == ([], prefix):
        return prefix  # the usual case: the typed text is already normalised
    longest = _CHARACTERS_PER_NORMALISED * len(prefix) + _MORE_CHARACTERS
    for length in range(1, min(longest, len(text)) + 1):
        fragment = text[-length:]
        if predictor.context_and_prefix(fragment) == ([], prefix):
            return fragment
    return ""


def rest_of_word(predictor: Keyboard, fragment: str, after: str) -> RestOfWord:
    """Returns the part of `after` that belongs to the word of `fragment`.

    Between words, that is only a space.
    """
    letters = 0
    if fragment:
        for length, character in enumerate(after[:_LONGEST_REST], start=1):
            if character.isspace() or predictor.context_and_prefix(fragment + after[:length])[0]:
                break
            if character.isalnum():  # a full stop is in the word only if letters follow
                letters = length
    return RestOfWord(letters, letters + (after[letters : letters + 1] == " "))


def in_case_of(fragment: str, word: str, language: str = "en") -> str:
    """Returns the word in the case of its typed start.

    >>> in_case_of("Com", "coming"), in_case_of("COM", "coming"), in_case_of("com", "coming")
    ('Coming', 'COMING', 'coming')
    >>> in_case_of("I", "i'm")
    "I'm"
    >>> in_case_of("IJ", "ijsje", "nl"), in_case_of("Ij", "ijsje", "nl")
    ('IJsje', 'IJsje')
    """
    has_one_capital = fragment == casing.capitalised(casing.lower(fragment, language), language)
    if len(fragment) > 1 and fragment.isupper() and not has_one_capital:
        return casing.upper(word, language)
    if fragment[:1].isupper():
        return casing.capitalised(word, language)
    return word


@dataclasses.dataclass(frozen=True)
class Sent:
    """A message that was sent, with the facts needed to learn from it."""

    text: str  # text without the white space around it
    exempt_words: frozenset[str]  # words, as typed, of which a correction was taken back
    learn: bool  # whether anything of it may be learnt


@dataclasses.dataclass(frozen=True)
class _Undo:
    """A change that Backspace undoes as a whole.

    The text must still be `after`. Marks and spaces may follow a correction.
    """

    after: str
    before: str
    rejected: str | None = None  # the word that was corrected, as it was typed
    sent: str | None = None  # the message that was sent with it
    closed: str = ""  # the character that was typed after the word


@dataclasses.dataclass
class TypingSession:
    """The text being typed and its cost.

    Every key, tap and deletion is one keystroke, Enter included.

    >>> session = TypingSession()
    >>> session.press("h")
    >>> session.accept(Slot("hello", 0.5, 1, "hello "))
    >>> session.text, session.keystrokes, session.saved
    ('hello ', 2, 4)
    >>> session.backspace()
    >>> session.text
    'h'
    """

    text: str = ""
    keystrokes: int = 0
    characters_sent: int = 0
    # Whether messages may be learnt from now on; False for passwords and the like
    learn: bool = True
    _undo: _Undo | None = None
    _rejected: set[str] = dataclasses.field(
        default_factory=set
    )  # texts that are not corrected again
    _exempt_words: set[str] = dataclasses.field(default_factory=set)
    _corrected: CorrectedWords = dataclasses.field(default_factory=CorrectedWords)
    _unsettled: list[Sent] = dataclasses.field(default_factory=list)

    def press(
        self, character: str, correction: Slot | None = None, *, corrects: bool = True
    ) -> None:
        """Types a character. One of `CLOSING`, or an emoji, also corrects the word before it.

        If it `corrects` not, as a space with Shift, the word stays, as if its correction had been
        taken back.
        If a letter or digit follows a full stop, the word is part of an address, a file name or an
        abbreviation such as "i.e.", and its correction is undone. Punctuation or a space takes the
        place of the space that a suggestion inserted.
        """
        undo = self._undo
        if undo is not None and undo.after == self.text:
            if undo.closed == "." and character.isalnum():
                self.text = undo.before
            elif undo.rejected is None and character in _ATTACHED:
                self.text = self.text.removesuffix(" ")
        before, closes = self.text, character in CLOSING or is_emoji(character)
        applies = closes and self._applies(correction)
        self.text += character
        self.keystrokes += 1
        is_kept = undo is not None and undo.rejected is not None and undo.sent is None
        self._undo = undo if is_kept and character in CLOSING else None
        if applies:
            assert correction is not None
            word, corrected_word = self._typed_and_corrected(before, correction)
            if not corrects:
                self._exempt_words.add(corrected_words.rejected_part(word, corrected_word))
                return
            corrected = correction.applied_to(before).removesuffix(" ") + character
            self._undo = _Undo(corrected, self.text, self._correct(before, word, corrected_word))
            self._undo = dataclasses.replace(self._undo, closed=character)
            self.text = corrected

    def type(self, text: str, keyboard: "CorrectsText") -> None:
        """Types text character by character, with the corrections that the keyboard makes.

        Args:
          text: Any text. Its last word is corrected only if a character of `CLOSING` follows it.
          keyboard: Gives the correction of the word before the cursor.
        """
        for character in text:
            closes = character in CLOSING or is_emoji(character)
            self.press(character, keyboard.keyboard_strip(self.text).correction if closes else None)

    def backspace(self) -> None:
        """Deletes a character or emoji, or undoes a suggestion or correction directly before it.

        An emoji is deleted as a whole. Marks and spaces after a correction stay: "the. " becomes
        "teh. " again.

        If a message was just sent and its last word was corrected by sending it, the message is not
        sent.
        """
        undo = self._undo
        if undo is not None and self.text.startswith(undo.after):
            self.text = undo.before + self.text[len(undo.after) :]
            if undo.sent is not None:
                sent = self._unsettled.pop()
                self.characters_sent -= len(undo.sent)
                self._exempt_words |= sent.exempt_words
            if undo.rejected is not None:
                self._exempt_words.add(undo.rejected)
            self._rejected.add(undo.before.removesuffix(undo.closed))
        else:
            self.text = self.text[: -length_of_last(self.text)] if self.text else ""
        self._undo = None
        self.keystrokes += 1

    def accept(self, slot: Slot, correction: Slot | None = None) -> None:
        """Taps a suggestion, one keystroke. Tapping the word as typed declines the correction."""
        before = self.text
        word = _end(before, slot.replaces)
        takes_back = self._typed_slot() == slot
        if takes_back or (correction is not None and word and slot.word == word):
            self._exempt_words.add(slot.word)
            self._rejected.add(slot.applied_to(before).removesuffix(" "))
        self.text = slot.applied_to(before)
        self._undo = _Undo(self.text, before)
        self.keystrokes += 1

    def send(self, correction: Slot | None = None) -> str:
        """Ends the message with Enter, which corrects the last word as a space does.

        The next message starts without context. The space after the last word is not sent, so it
        does not count as a character. The session forgets the message when `settled` returns it.

        Returns:
          The message; "" if there was nothing to send.
        """
        self.keystrokes += 1
        before, undo = self.text, None
        if self._applies(correction):
            assert correction is not None
            word, corrected_word = self._typed_and_corrected(before, correction)
            self.text = correction.applied_to(before)
            rejected = corrected_words.rejected_part(word, corrected_word)
            undo = _Undo("", before, rejected, self.text.strip())
        message = self.text.strip()
        if message:
            self._unsettled.append(Sent(message, frozenset(self._exempt_words), self.learn))
        self.characters_sent += len(message)
        self._empty()
        self._undo = undo
        return message

    def drop(self) -> None:
        """Empties the line, because it was a command. Its keys do not count."""
        self.keystrokes -= len(self.text)
        self._empty()

    def settled(self, *, ended: bool = False) -> list[Sent]:
        """Returns messages that can no longer be taken back, each once. They can be learnt.

        `ended` means that no further key follows.
        """
        waits = not ended and self._undo is not None and self._undo.sent is not None
        count = len(self._unsettled) - waits
        settled, self._unsettled = self._unsettled[:count], self._unsettled[count:]
        return settled

    def _applies(self, correction: Slot | None) -> bool:
        """Checks if there is a correction, and the user has not taken it back in this message."""
        if correction is None or self.text in self._rejected:
            return False
        if corrected_words.is_exempt(_end(self.text, correction.replaces), self._exempt_words):
            return False
        first = len(self.text) - correction.replaces
        ends = (i for i in range(first, len(self.text)) if self.text[i].isspace())
        return all(self.text[:end] not in self._rejected for end in ends)

    def with_typed(self, strip: KeyboardStrip) -> KeyboardStrip:
        """Returns a strip that offers the corrected word at the cursor as it was typed.

        It takes the last place.
        """
        slot = self._typed_slot()
        if slot is None or any(other and other.word == slot.word for other in strip.slots):
            return strip
        return dataclasses.replace(strip, slots=(*strip.slots[:-1], slot))

    def _typed_slot(self) -> Slot | None:
        """Returns the typed form of the corrected word at the cursor, to restore it."""
        place = self._corrected.at(self.text)
        if place is None:
            return None
        return Slot(place.typed, 0.0, place.before, f"{place.typed} ")

    def _typed_and_corrected(self, before: str, correction: Slot) -> tuple[str, str]:
        """Returns the text that a correction replaces, and its correction."""
        return _end(before, correction.replaces), correction.inserts.removesuffix(" ")

    def _correct(self, before: str, typed: str, correction: str) -> str:
        """Notes a correction, and returns the part of it that Backspace rejects."""
        self._corrected.add(before.removesuffix(typed), typed, correction)
        return corrected_words.rejected_part(typed, correction)

    def _empty(self) -> None:
        """Begins a new message."""
        self.text = ""
        self._corrected.clear()
        self._undo = None
        self._rejected.clear()
        self._exempt_words.clear()

    @property
    def characters(self) -> int:
        """Number of typed and accepted characters, spaces included."""
        return self.characters_sent + len(self.text)

    @property
    def saved(self) -> int:
        """Characters minus keystrokes; negative after many deletions."""
        return self.characters - self.keystrokes

    @property
    def kss_with_spaces(self) -> float:
        """(characters - keystrokes) / characters; 0 if no text was typed."""
        return self.saved / self.characters if self.characters else 0.0

    def summary(self) -> str:
        """Returns a one-line summary to print."""
        return (
            f"{self.keystrokes} keystrokes for {self.characters} characters: "
            f"{self.saved} saved ({self.kss_with_spaces:.0%})"
        )


def _end(text: str, length: int) -> str:
    return text[len(text) - length :] if length else ""
