"""What a keyboard does with suggestions: where they stand, what a tap types, what it saved.

Shared by the web page (`keyboard_server`) and the terminal (`terminal_keyboard`).
"""

import dataclasses

from tff_keyboard.data.text import casing
from tflite_export.runtime.hybrid_keyboard import Keyboard

SLOTS = 3

CLOSING = " .,!?;:)"  # characters that end a word, so that it is corrected

# Place on the strip -> place in the ranking: the best word stands in the centre, as on phones.
SLOT_RANKS = (1, 0, 2)

# How many typed characters may stand for one normalised one ("e" + two accents), and how many are
# tried beyond that.
_CHARACTERS_PER_NORMALISED = 3
_MORE_CHARACTERS = 8

_LONGEST_PREFIX = 100
_LONGEST_REST = 40  # characters of a word behind the cursor


@dataclasses.dataclass(frozen=True)
class Slot:
    """One place of the strip."""

    word: str  # the word as it would be typed, in the case of what is typed already
    # Probability of the word after the context, before the prefix narrowed the choice; for a
    # correction, that it was meant
    probability: float
    replaces: int  # characters before the cursor that a tap takes away
    inserts: str  # what a tap types in their place: the word and a space
    # Characters behind the cursor that go too: the rest of the word, and a space that stands there
    # already
    replaces_after: int = 0

    def applied_to(self, text: str) -> str:
        """The text before the cursor after a tap."""
        return text[: len(text) - self.replaces] + self.inserts


@dataclasses.dataclass(frozen=True)
class SlottedStrip:
    """The strip as shown: `SLOTS` places, None where there is no suggestion."""

    slots: tuple[Slot | None, ...]
    latency_seconds: float  # seconds from the key to the suggestions
    # What a space makes of the typed word; its space is the one that was typed, or gives way to the
    # other one of `CLOSING` that was
    correction: Slot | None = None


@dataclasses.dataclass(frozen=True)
class RestOfWord:
    """What a suggestion takes behind the cursor: letters of the word, and those with its space."""

    letters: int
    characters: int


def typed_fragment(predictor: Keyboard, text: str, prefix: str) -> str:
    """The end of `text` as typed that was normalised to `prefix`; "" for more than 100 characters.

    No word is as long, and each length that is tried costs a look at all of it.
    """
    if not 0 < len(prefix) <= _LONGEST_PREFIX:
        return ""
    if text.endswith(prefix) and predictor.context_and_prefix(prefix) == ([], prefix):
        return prefix  # typed as it is normalised, as nearly always
    longest = _CHARACTERS_PER_NORMALISED * len(prefix) + _MORE_CHARACTERS
    for length in range(1, min(longest, len(text)) + 1):
        fragment = text[-length:]
        if predictor.context_and_prefix(fragment) == ([], prefix):
            return fragment
    return ""


def rest_of_word(predictor: Keyboard, fragment: str, after: str) -> RestOfWord:
    """What belongs to the word of `fragment` behind the cursor; the space alone between words."""
    rest = 0
    if fragment:
        for length, character in enumerate(after[:_LONGEST_REST], start=1):
            if character.isspace() or predictor.context_and_prefix(fragment + after[:length])[0]:
                break
            if character.isalnum():  # a full stop is in the word only if letters follow
                rest = length
    return RestOfWord(rest, rest + (after[rest : rest + 1] == " "))


def in_case_of(fragment: str, word: str, language: str = "en") -> str:
    """The word in the case of its typed start.

    >>> in_case_of("Com", "coming"), in_case_of("COM", "coming"), in_case_of("com", "coming")
    ('Coming', 'COMING', 'coming')
    >>> in_case_of("I", "i'm")
    "I'm"
    """
    if len(fragment) > 1 and fragment.isupper():
        return casing.upper(word, language)
    if fragment[:1].isupper():
        return casing.capitalised(word, language)
    return word


@dataclasses.dataclass(frozen=True)
class Sent:
    """A message that was sent, as whoever learns from it wants it."""

    text: str  # text without the white space around it
    kept: frozenset[str]  # words, as typed, of which a correction was taken back
    learn: bool  # whether anything of it may be learnt


@dataclasses.dataclass(frozen=True)
class _Undo:
    """What Backspace takes back as a whole while the text is still `after`."""

    after: str
    before: str
    rejected: str | None = None  # the word that was corrected
    sent: str | None = None  # the message that was sent with it
    closed: str = ""  # what was typed behind the word


@dataclasses.dataclass
class TypingSession:
    """Text being typed and what it cost: every key, tap and deletion is one keystroke, Enter too.

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
    messages: list[str] = dataclasses.field(default_factory=list)
    # Whether what is sent from now on may be learnt; off for passwords and the like
    learn: bool = True
    _undo: _Undo | None = None
    _rejected: set[str] = dataclasses.field(default_factory=set)  # texts not to be corrected again
    _kept: set[str] = dataclasses.field(default_factory=set)
    _unsettled: list[Sent] = dataclasses.field(default_factory=list)

    def press(self, character: str, correction: Slot | None = None) -> None:
        """Types a character; one of `CLOSING` also corrects the word in front of it.

        A full stop leaves one letter as it is: it may begin "i.e.".
        """
        before, applies = self.text, character in CLOSING and self._applies(correction)
        if character == "." and correction is not None and correction.replaces == 1:
            applies = False
        self.text += character
        self.keystrokes += 1
        self._undo = None
        if applies:
            assert correction is not None
            corrected = correction.applied_to(before).removesuffix(" ") + character
            word = _end(before, correction.replaces)
            self._undo = _Undo(corrected, self.text, rejected=word, closed=character)
            self.text = corrected

    def backspace(self) -> None:
        """Deletes a character; right after a suggestion or correction, takes that back.

        Right after a message whose last word was corrected by sending it, that is not sent.
        """
        undo = self._undo
        if undo is not None and undo.after == self.text:
            self.text = undo.before
            if undo.sent is not None:
                sent = self._unsettled.pop()
                self.messages.pop()
                self.characters_sent -= len(undo.sent)
                self._kept |= sent.kept
            if undo.rejected is not None:
                self._kept.add(undo.rejected)
            self._rejected.add(self.text.removesuffix(undo.closed))
        else:
            self.text = self.text[:-1]
        self._undo = None
        self.keystrokes += 1

    def accept(self, slot: Slot, correction: Slot | None = None) -> None:
        """Touches a suggestion: one keystroke; the word as typed declines the correction."""
        before = self.text
        word = _end(before, slot.replaces)
        if correction is not None and word and slot.word == word:
            self._kept.add(word)
        self.text = slot.applied_to(before)
        self._undo = _Undo(self.text, before)
        self.keystrokes += 1

    def send(self, correction: Slot | None = None) -> None:
        """Ends the message with Enter, which corrects the last word as a space does.

        The next one begins with no context. The space behind the last word reaches nobody, so it
        counts as no character. `settled` hands the message out.
        """
        self.keystrokes += 1
        before, undo = self.text, None
        if self._applies(correction):
            assert correction is not None
            self.text = correction.applied_to(before)
            undo = _Undo("", before, _end(before, correction.replaces), self.text.strip())
        message = self.text.strip()
        if message:
            self.messages.append(message)
            self._unsettled.append(Sent(message, frozenset(self._kept), self.learn))
        self.characters_sent += len(message)
        self._empty()
        self._undo = undo

    def drop(self) -> None:
        """Empties the line: it was a command and no message. Its keys are not counted."""
        self.keystrokes -= len(self.text)
        self._empty()

    def settled(self, *, ended: bool = False) -> list[Sent]:
        """Messages that can no longer be taken back, each handed out once: now they are learnt.

        `ended`: no other key comes.
        """
        waits = not ended and self._undo is not None and self._undo.sent is not None
        count = len(self._unsettled) - waits
        found, self._unsettled = self._unsettled[:count], self._unsettled[count:]
        return found

    def _applies(self, correction: Slot | None) -> bool:
        return correction is not None and self.text not in self._rejected

    def _empty(self) -> None:
        self.text = ""
        self._undo = None
        self._rejected.clear()
        self._kept.clear()

    @property
    def characters(self) -> int:
        """Typed and accepted, spaces included."""
        return self.characters_sent + len(self.text)

    @property
    def saved(self) -> int:
        """Keystrokes fewer than characters; negative after much deleting."""
        return self.characters - self.keystrokes

    @property
    def kss_with_spaces(self) -> float:
        """(characters - keystrokes) / characters; 0 where nothing is typed."""
        return self.saved / self.characters if self.characters else 0.0

    def summary(self) -> str:
        """A line for people."""
        return (
            f"{self.keystrokes} keystrokes for {self.characters} characters: "
            f"{self.saved} saved (kss_with_spaces {self.kss_with_spaces:.0%})"
        )


def _end(text: str, length: int) -> str:
    return text[len(text) - length :] if length else ""
