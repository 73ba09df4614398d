"""The words of a personal dictionary on the strip: completed, never corrected, with their capitals.

The entries come from a file (`dictionary_files.py`). Unlike learned words, they do not decay and
nothing that is typed changes them. A word that the model does not know gets a share of the
probability of unknown words,

    p(w | h) = p(OOV | h) SHARE

as a word of the tail lexicon has it. A shortcut is offered with the text that stands for it, first,
and is never corrected.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from tff_keyboard.data.text import casing
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.prefix_index import range_of
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_app.keyboard.dictionary_files import Entry
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, Keyboard

SHARE = 0.02  # of the probability of unknown words, for a completion
_SHARE_OF_CORRECTION = 5e-4  # the same, for a word that is meant by another string
_MAX_SHARE = 0.2  # of all words together


class UserDictionary:
    """The entries of one person for one keyboard.

    Args:
      entries: The entries. Entries of other languages are left out.
      keyboard: Its vocabulary decides which words are unknown, and how text is cut into words.
      language: Language of the keyboard.

    Attributes:
      words: The words as the model sees them, in small letters, also those of the vocabulary.
      shortcuts: What is typed, in small letters -> the text that stands for it.
      forms: The words with capitals.
    """

    def __init__(self, entries: Iterable[Entry], keyboard: Keyboard, language: str):
        network = keyboard.network if isinstance(keyboard, HybridKeyboardPredictor) else keyboard
        code, lowercase = keyboard.vocabulary.rules.language, keyboard.vocabulary.rules.lowercase
        words: dict[str, str] = {}
        shortcuts: dict[str, str] = {}
        for entry in entries:
            if not entry.is_of(language, code):
                continue
            if entry.shortcut:
                shortcuts[casing.lower(entry.shortcut, code)] = entry.word
            normalised = network.words_of(entry.word)
            if len(normalised) == 1 and not any(map(str.isspace, entry.word)):
                words.setdefault(normalised[0], entry.word)
        self.words: Mapping[str, str] = words
        self.shortcuts: Mapping[str, str] = shortcuts
        self.forms = [form for word, form in words.items() if lowercase and form != word]
        self._unknown = sorted(w for w in words if keyboard.vocabulary.id_of(w) == OOV)

    def __contains__(self, typed: object) -> bool:
        """Whether a string in small letters is a word or a shortcut, so that it stays as typed."""
        return typed in self.words or typed in self.shortcuts

    def completions(self, prefix: str, p_oov: float) -> list[tuple[str, float]]:
        """Returns the unknown words that begin with typed letters, and their probability."""
        if not prefix:
            return []
        first, end = range_of(self._unknown, prefix)
        return [(word, SHARE * p_oov) for word in self._unknown[first:end]]

    def with_words(self, tail: TailLexicon | None) -> TailLexicon | None:
        """Returns the lexicon of words that may be meant: `tail` and the unknown words.

        A word of both keeps the larger share. The shares of `tail` become smaller by the share that
        the words of this dictionary have together.
        """
        if not self._unknown:
            return tail
        share = min(_SHARE_OF_CORRECTION, _MAX_SHARE / len(self._unknown))
        share_of_tail = 1.0 - share * len(self._unknown)
        shares = dict.fromkeys(self._unknown, share)
        if tail is not None:
            for word, each in zip(tail.words, tail.shares.tolist(), strict=True):
                shares[word] = max(share_of_tail * each, shares.get(word, 0.0))
        words = sorted(shares)
        return TailLexicon(words, np.array([shares[word] for word in words]))
