"""The words that keyboards have learnt from their owner, in memory or in the owner's file.

A message is learnt when it is sent, one sentence at a time, because the strip starts without
context in each sentence. The file (`cache_file.py`) is replaced after every
message and every deletion, so that a word that is gone from the strip is gone from the file. One
process locks the file: a second process would write back words that the first one forgot.
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

from tff_keyboard.data.text import casing
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.hybrid.word_cache import LONGEST_WORD, WordCache, may_be_learnt
from tff_keyboard.predictors.locking import Lock, locked
from tff_keyboard.storage import exclusive_file
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.keyboard import cache_file, sentences
from tff_keyboard_app.keyboard.multilingual import MultilingualKeyboard
from tff_keyboard_app.keyboard.typed_cache import forget_typed
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, Keyboard


class UserHistory:
    """The words of one owner, shared by one or several keyboards. Several threads may use it.

    Args:
      keyboards: The keyboards. Those that do not learn are ignored.
      cache: The cache of the words.
      path: File of the cache. If None, the cache is only in memory.
      languages: The keyboard of several languages that has these keyboards. It learns the language
        of each message, and tells the model whose rules cut it into words.

    Raises:
      ExportError: If the keyboards cut text into words by different rules, and not only those of
        different languages.
    """

    def __init__(
        self,
        keyboards: Iterable[Keyboard],
        cache: WordCache,
        path: pathlib.Path | None = None,
        languages: MultilingualKeyboard | None = None,
    ):
        self._keyboards = [k for k in keyboards if isinstance(k, HybridKeyboardPredictor)]
        self.cache = cache
        self._path = path
        self._languages = languages
        rules = [keyboard.vocabulary.rules for keyboard in self._keyboards]
        if languages is not None:
            rules = [dataclasses.replace(one, language=rules[0].language) for one in rules]
        if len(set(rules)) > 1:
            raise ExportError(
                "These models have different tokenisation rules, so they cannot learn words "
                "together. Open one at a time."
            )

    @property
    def lock(self) -> Lock:
        """The lock of the cache."""
        return self.cache.lock

    @property
    def can_learn(self) -> bool:
        """Whether any of the keyboards can learn."""
        return bool(self._keyboards)

    @locked
    def learn(self, text: str, exempt_words: Iterable[str] = (), *, learn: bool = True) -> None:
        """Learns a message that was sent.

        Args:
          text: The message.
          exempt_words: Words of the message of which a correction was taken back. They are no
            longer corrected.
          learn: False for a message that must not be learnt, such as a password. The caches of
            typed strings (`typed_cache.py`) are then emptied.

        Raises:
          ProgramError: If the file cannot be written. The message is learnt in memory.
        """
        if not learn:
            forget_typed()
        if not self.can_learn or not learn:
            return
        keyboard = self._keyboard_of(text)
        if self._languages is not None:
            self._languages.sent(text)
        normalised = [word for typed in exempt_words for word in keyboard.network.words_of(typed)]
        for sentence in sentences.sentences_of(text):
            words: list[str | None] = []
            forms: list[str | None] = []
            # The forms of a sentence in capitals say nothing.
            has_small = any(letter.islower() for letter in sentence)
            for run in sentence.split():
                learnable = may_be_learnt(run)  # a word that touches a digit becomes a gap
                for word, form in self._words_of_run(keyboard, run):
                    has_said = has_small and self._says_form(form, is_first=not words)
                    words.append(word if learnable else None)
                    forms.append(form if learnable and has_said else None)
            if words:
                keyboard.learn(words, normalised, forms)
        self._save()

    def _keyboard_of(self, text: str) -> HybridKeyboardPredictor:
        """Returns the keyboard whose rules cut a text into words."""
        if self._languages is not None:
            keyboard = self._languages.predictor_of(text)
            if isinstance(keyboard, HybridKeyboardPredictor):
                return keyboard
        return self._keyboards[0]

    @staticmethod
    def _words_of_run(keyboard: HybridKeyboardPredictor, run: str) -> list[tuple[str, str | None]]:
        """Returns the words of text without white space, each with its form in the text.

        The form is None if the text has the word with other characters ("½").
        """
        code = keyboard.vocabulary.rules.language
        small, end = casing.lower(run, code), 0
        pairs: list[tuple[str, str | None]] = []
        for word in keyboard.network.words_of(run):
            start = small.find(word, end) if len(small) == len(run) else -1
            end = max(end, start + len(word)) if start >= 0 else end
            pairs.append((word, run[start:end] if start >= 0 else None))
        return pairs

    @staticmethod
    def _says_form(form: str | None, *, is_first: bool) -> bool:
        """Returns whether the form of a word is its own; a sentence begins with a capital."""
        if form is None:
            return False
        return not is_first or any(letter.isupper() for letter in form[1:])

    @locked
    def add(self, word: str) -> bool:
        """Learns a word at once, as if a correction of it had been taken back.

        Args:
          word: The word with its capitals.

        Returns:
          False if it is no single word that may be learnt. Nothing is then changed.

        Raises:
          ProgramError: If the file cannot be written. The word is learnt in memory.
        """
        word = word.strip()
        if not self.can_learn or not may_be_learnt(word):
            return False
        keyboard = self._keyboard_of(word)
        words = keyboard.network.words_of(word)
        is_word = len(words) == 1 and any(map(str.isalpha, word))
        if not is_word or casing.lower(word, keyboard.vocabulary.rules.language) != words[0]:
            return False
        if len(words[0]) > LONGEST_WORD:
            return False
        # Small letters may have another length: those of "İ" are two characters.
        form = word if len(word) == len(words[0]) else None
        for _ in range(2):  # so that a known word gets its capital, too (`personal_dictionary.py`)
            keyboard.learn([None, *words, None], words, [None, form, None])  # in no message
        self._save()
        return True

    @locked
    def forget(self, text: str) -> tuple[list[str], list[str]]:
        """Forgets every word of a text, as if its places in the messages had been gaps.

        Returns:
          The words that were forgotten, and the words that were not in the cache.

        Raises:
          ProgramError: If the file cannot be written. The words are gone from memory only.
        """
        if not self.can_learn:
            return [], []
        # Each language may have learnt it in other small letters: "Irmak" as "irmak" or "ırmak".
        networks = [keyboard.network for keyboard in self._keyboards]
        words = dict.fromkeys(word for network in networks for word in network.words_of(text))
        forgotten = [word for word in words if word in self.cache.uses]
        self.cache.forget(words)
        forget_typed()
        self._save()
        unknown = [word for word in networks[0].words_of(text) if word not in forgotten]
        if forgotten and len(networks) > 1:  # in the small letters of another language
            unknown = []
        return forgotten, list(dict.fromkeys(unknown))

    @locked
    def forget_all(self) -> None:
        """Empties the cache. Raises the errors of `forget`."""
        self.cache.forget_all()
        forget_typed()
        self._save()

    @locked
    def personal_dictionary(self) -> list[tuple[str, int]]:
        """Returns the words that some table lacks, with uses; those typed most and latest first.

        Each is in the form in which it was written most often.
        """
        tables = [keyboard.vocabulary for keyboard in self._keyboards]
        counts = self.cache.words
        words = [
            word for word in self.cache.uses if any(table.id_of(word) == OOV for table in tables)
        ]
        ranked = sorted(words, key=lambda word: (-counts[word], word))
        return [(self.cache.form(word), self.cache.uses[word]) for word in ranked]

    @property
    def num_words(self) -> int:
        """Number of distinct words in the cache."""
        return len(self.cache.uses)

    def _save(self) -> None:
        if self._path is not None:
            cache_file.save(self.cache, self._path)


@contextlib.contextmanager
def held_cache(path: pathlib.Path | None) -> Iterator[tuple[WordCache, str | None]]:
    """Opens the cache of a new or existing file, and locks it against other processes.

    If `path` is None, the cache is only in memory. If the file is damaged, the result is a fresh
    cache and a line about the damage.

    Raises:
      ExportError: If another keyboard has the cache open, or its folder cannot be written.
      DataError: If the file cannot be read, or is not a cache.
    """
    if path is None:
        yield WordCache(), None
        return
    holding = exclusive_file.held(
        path.with_name(f".{path.name}.lock"),
        cannot=lambda why: ExportError(
            f"{path}: cannot write a word cache ({why}). Choose another file."
        ),
        taken=ExportError(
            f"{path}: another keyboard is using this cache. Close it, or choose another file."
        ),
    )
    with holding:
        yield cache_file.load_or_fresh(path)
