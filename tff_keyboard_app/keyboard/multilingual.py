"""One strip from the models of two or three languages, for people who write in all of them.

Each word that ends is evidence of the language. The hidden state is the language l and the habit r
of its writer: how often the language changes from word to word, and from message to message
(`_HABITS`).

    b_0[r, l]    after the last message, with the changes of r between messages
    b_i+1[r, l]  ~ f_l(word i) * (b_i[r, l] with the changes of r between words)

f_l is the probability of the word without context in language l, which the models already know for
their corrections, so this costs no step of a network. So who writes in one language for hours has
the strip of that language, and who mixes has both. A suggestion has the score

    sum over l of b_l P_l(word | context)    with b_l = sum over r of b[r, l]

A correction is made only if it is right whichever language was meant (`_correction`). Another
language never makes another word of a word of the vocabulary; it may change its capitals.
"""

import itertools
import math
import pathlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tff_keyboard.predictors.locking import Lock, locked
from tff_keyboard_app.keyboard import typing_session
from tff_keyboard_app.keyboard.dictionary_files import Entry
from tff_keyboard_app.keyboard.emoji import is_emoji
from tff_keyboard_app.keyboard.languages import Language
from tff_keyboard_app.keyboard.strip import AppKeyboard, ScoredStrip
from tff_keyboard_app.keyboard.touches import Touch, checked
from tff_keyboard_app.keyboard.typed_cache import typed_cache
from tff_keyboard_app.keyboard.typing_session import SLOTS, KeyboardStrip, Slot
from tflite_export.runtime.hybrid_keyboard import Keyboard

MOST = 3  # languages
_LOOK_BACK = 40  # words before the cursor that are evidence
# Chance that the next word, and the next message, may be in any language: of who writes in one
# language, of who changes between messages, and of who mixes.
_HABITS = np.array([[0.0002, 0.001], [0.05, 0.9], [0.5, 1.0]])
_KEPT_HABIT = 0.99  # from message to message
_RAREST = 1e-7  # probability of a word that a language does not know
_MOST_EVIDENCE = 1e2  # the largest ratio of probabilities that one word gives
_IN_PLAY = 0.01  # belief from which on a language suggests and corrects
_AGREED = 0.8  # share of a correction among different ones
_SURE_OF_LANGUAGE = 0.8  # belief from which on a language changes its own words by their context
_SLIP = 1e-4  # chance of a slip, against a rare word of another language
_NOTHING = ScoredStrip((), None)


class MultilingualKeyboard:
    """Keyboards of several languages as one. Several threads may use it.

    Args:
      keyboards: Two or three keyboards. The first one determines the keys of the page.

    Raises:
      ValueError: If there are fewer or more keyboards.
    """

    def __init__(self, keyboards: Sequence[AppKeyboard]):
        if not 2 <= len(keyboards) <= MOST:
            raise ValueError(
                f"A keyboard of several languages needs 2 to {MOST} models, got {len(keyboards)}."
            )
        self._keyboards = tuple(keyboards)
        self._lock = Lock()
        shape = (len(_HABITS), len(keyboards))
        self._equal = np.full(shape, 1 / math.prod(shape))
        self._after_sent = self._equal
        self._known_evidence = typed_cache(self._evidence, maxsize=4_000)

    @classmethod
    def open(
        cls, paths: Iterable[pathlib.Path | str], *, dictionary: Iterable[Entry] = ()
    ) -> "MultilingualKeyboard":
        """Opens the keyboard on exported models. The user's words are not learnt.

        Args:
          paths: Two or three `.tflite` files, as `AppKeyboard.open` takes them.
          dictionary: Entries of the user's personal dictionary.

        Raises:
          ExportError: If a file is missing, damaged or does not belong to the others.
          ValueError: If there are fewer or more files.
        """
        entries = tuple(dictionary)
        return cls([AppKeyboard.open(path, dictionary=entries) for path in paths])

    @property
    def lock(self) -> Lock:
        """The lock of the beliefs. Each model has its own one, too."""
        return self._lock

    @property
    def code(self) -> str:
        """The language of the first keyboard."""
        return self._keyboards[0].code

    @property
    def language(self) -> Language:
        """The keys, slips and endings of the first keyboard."""
        return self._keyboards[0].language

    @property
    def held(self) -> Mapping[str, str]:
        """Letter of a key -> letters that the page offers while the key is held down.

        They are those of all languages that have no key of their own here: "ä" and "ß" on English
        keys.
        """
        keys = "".join(self.language.keys)
        held: dict[str, str] = {}
        for keyboard in self._keyboards:
            for plain, letters in keyboard.language.marked.items():
                key = plain[0]  # of "ss" for "ß"
                offered = held.get(key, "") + keys
                new = "".join(letter for letter in letters if letter not in offered)
                if key in keys and new:
                    held[key] = held.get(key, "") + new
        return held

    @property
    def predictors(self) -> tuple[Keyboard, ...]:
        """The models."""
        return tuple(keyboard.predictor for keyboard in self._keyboards)

    @property
    def withheld(self) -> int:
        """Number of blocked words that the strips so far did not show, of all languages."""
        return sum(keyboard.withheld for keyboard in self._keyboards)

    def offers(self, word: str) -> bool:
        """Returns whether a word that is not in a vocabulary may be on the strip, in any form."""
        return any(keyboard.offers(word) for keyboard in self._keyboards)

    @locked
    def beliefs(self, text: str) -> tuple[float, ...]:
        """Returns the probability of each language for the next word of the text, [languages].

        Args:
          text: The text before the cursor. A word at its end, without a space, does not count yet.
        """
        return tuple(self._of_languages(text).tolist())

    @locked
    def sent(self, message: str) -> None:
        """Notes the language of a message that was sent. The next one begins with it."""
        after = _changed(self._states(f"{message} "), _HABITS[:, 1])
        self._after_sent = _KEPT_HABIT * after + (1 - _KEPT_HABIT) * after.mean(axis=0)

    @locked
    def predictor_of(self, text: str) -> Keyboard:
        """Returns the model whose language the words of a text most probably are."""
        states = self._states(f"{text} ")
        return self._keyboards[int(np.argmax(states.sum(axis=0)))].predictor

    def keyboard_strip(
        self, text: str, after: str = "", touches: Sequence[Touch | None] | None = None
    ) -> KeyboardStrip:
        """Returns the suggestions of all languages, each in its place.

        Arguments and errors are those of `AppKeyboard.keyboard_strip`.
        """
        start = time.perf_counter()
        if touches is not None:
            checked(touches, text)
        # Without the lock from here on: a strip takes that of the learnt words, and who holds it
        # may note a message.
        beliefs = np.array(self.beliefs(text))
        strips = [
            # Touches are on the keys of the first language.
            keyboard.scored_strip(
                text, after, touches if keyboard.language.keys == self.language.keys else None
            )
            if belief >= _IN_PLAY
            else _NOTHING
            for keyboard, belief in zip(self._keyboards, beliefs, strict=True)
        ]
        slots = _merged_slots(beliefs, strips)
        correction = self._correction(text, beliefs, strips)
        if correction is not None and all(slot.inserts != correction.inserts for slot in slots):
            slots = [*slots[: SLOTS - 1], correction]
        return typing_session.placed(slots, correction, time.perf_counter() - start)

    def _of_languages(self, text: str) -> np.ndarray:
        """Returns the belief in each language at the end of a text."""
        beliefs: np.ndarray = self._states(text).sum(axis=0)
        return beliefs

    def _states(self, text: str) -> np.ndarray:
        """Returns the probability of each state for the next word, [habits, languages]."""
        runs = text.split()
        if runs and not text[-1:].isspace():
            runs.pop()
        states = self._after_sent
        for run in runs[-_LOOK_BACK:]:
            states = states * self._known_evidence(run)
            states = _changed(states / states.sum(), _HABITS[:, 0])
        return states

    def _evidence(self, run: str) -> np.ndarray:
        """Returns P(word) in each language, up to a factor, for text without white space."""
        logs = []
        for keyboard in self._keyboards:
            words = keyboard.predictor.network.words_of(run)
            log_frequencies = [math.log(max(_RAREST, keyboard.frequency(word))) for word in words]
            logs.append(sum(log_frequencies) / len(words) if log_frequencies else math.log(_RAREST))
        evidence = np.exp(np.array(logs) - max(logs))
        return np.maximum(evidence, 1 / _MOST_EVIDENCE)

    def _correction(
        self, text: str, beliefs: np.ndarray, strips: Sequence[ScoredStrip]
    ) -> Slot | None:
        """Returns the correction that a space applies.

        Languages that correct the word differently must agree to `_AGREED`. A language that makes
        no correction keeps the word if it is in its vocabulary, or if a rare word of it is more
        likely than a slip. Then nothing is corrected.
        """
        weights: dict[tuple[int, str], float] = {}
        makers: dict[tuple[int, str], list[int]] = {}
        for number, (belief, strip) in enumerate(zip(beliefs, strips, strict=True)):
            slot = strip.correction
            if slot is not None:
                key = (slot.replaces, slot.inserts.casefold())
                weights[key] = weights.get(key, 0.0) + float(belief) * slot.probability
                makers.setdefault(key, []).append(number)
        if not weights:
            return None
        best = max(weights, key=weights.__getitem__)
        if weights[best] < _AGREED * sum(weights.values()):
            return None
        maker = max(makers[best], key=lambda number: beliefs[number])
        slot = strips[maker].correction
        assert slot is not None
        weight = sum(float(beliefs[number]) for number in makers[best])
        is_kept = any(
            self._keeps(number, float(belief), slot, text, weight * self._chance(maker, slot, text))
            for number, (belief, strip) in enumerate(zip(beliefs, strips, strict=True))
            if strip.correction is None
        )
        changes_right_word = not _is_case_alone(slot, text) and self._is_right_in(
            maker, _replaced_text(slot, text), slot.inserts
        )
        if is_kept or (changes_right_word and weight < _SURE_OF_LANGUAGE):
            return None
        return slot

    def _keeps(self, number: int, belief: float, slot: Slot, text: str, chance: float) -> bool:
        """Returns whether a language keeps the word that others correct with some chance."""
        keyboard = self._keyboards[number]
        words = self._changed_words(number, _replaced_text(slot, text), slot.inserts)
        if words and all(map(keyboard.is_common, words)) and not _is_case_alone(slot, text):
            return True
        rarest = min(map(keyboard.frequency, words), default=0.0)
        return belief * rarest > chance

    def _chance(self, number: int, slot: Slot, text: str) -> float:
        """Returns the probability of the typed word if a language meant its correction."""
        slip = 1.0 if _is_case_alone(slot, text) else _SLIP
        return slip * self._least_frequency(number, slot.inserts)

    def _changed_words(self, number: int, typed: str, correction: str) -> list[str]:
        """Returns the typed words that a correction changes, as language `number` divides the text.

        Returns all of them if the correction has another number of words.
        """
        network = self._keyboards[number].predictor.network
        words, corrected = network.words_of(typed), network.words_of(correction)
        if len(words) != len(corrected) or words == corrected:
            return words
        return [word for word, other in zip(words, corrected, strict=True) if word != other]

    def _is_right_in(self, number: int, typed: str, correction: str) -> bool:
        """Returns whether the words that a correction changes are common in language `number`."""
        keyboard = self._keyboards[number]
        return all(map(keyboard.is_common, self._changed_words(number, typed, correction)))

    def _least_frequency(self, number: int, text: str) -> float:
        """Returns the frequency of the rarest word of a text in language `number`."""
        keyboard = self._keyboards[number]
        words = keyboard.predictor.network.words_of(text)
        return max(_RAREST, min(map(keyboard.frequency, words), default=0.0))


def _replaced_text(slot: Slot, text: str) -> str:
    """Returns the end of the text that a suggestion would replace."""
    return text[len(text) - slot.replaces :]


def _is_case_alone(slot: Slot, text: str) -> bool:
    return _replaced_text(slot, text).casefold() == slot.inserts.strip().casefold()


def _changed(states: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Returns the states after a word or message, [habits, languages].

    Args:
      states: The states before it.
      chances: Of each habit, the chance that any language may follow.
    """
    shares = chances[:, np.newaxis]
    changed: np.ndarray = (1 - shares) * states + shares * states.mean(axis=1, keepdims=True)
    return changed


def _merged_slots(beliefs: np.ndarray, strips: Sequence[ScoredStrip]) -> list[Slot]:
    """Returns the best suggestions of all strips. Each strip keeps its own order."""
    scores: dict[str, float] = {}
    best: dict[str, tuple[float, Slot]] = {}
    for belief, strip in zip(beliefs, strips, strict=True):
        ranked = [(slot, float(belief) * score) for slot, score in strip.ranked]
        bounds = itertools.accumulate((score for _, score in ranked), min)
        for (slot, _), score in zip(ranked, bounds, strict=True):
            word = slot.word.casefold()
            scores[word] = scores.get(word, 0.0) + score
            if word not in best or score > best[word][0]:
                best[word] = (score, slot)
    slots = [best[word][1] for word in sorted(best, key=lambda word: -scores[word])]
    emoji = [slot for slot in slots if is_emoji(slot.word)]
    return [slot for slot in slots if slot not in emoji[1:]][:SLOTS]


AnyKeyboard: TypeAlias = AppKeyboard | MultilingualKeyboard
