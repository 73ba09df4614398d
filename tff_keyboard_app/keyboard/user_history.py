"""The words that keyboards have learnt from their owner, in memory or in the owner's file.

A message is learnt when it is sent, one sentence at a time, because the strip starts without
context in each sentence. The file (`cache_file.py`) is replaced after every
message and every deletion, so that a word that is gone from the strip is gone from the file. One
process locks the file: a second process would write back words that the first one forgot.
"""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator

from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.hybrid.word_cache import WordCache, may_be_learnt
from tff_keyboard.predictors.locking import Lock, locked
from tff_keyboard.storage import exclusive_file
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_app.keyboard import cache_file, sentences
from tflite_export.runtime.hybrid_keyboard import HybridKeyboard, Keyboard


class UserHistory:
    """The words of one owner, shared by one or several keyboards. Several threads may use it.

    Args:
      keyboards: The keyboards. Those that do not learn are ignored.
      cache: The cache of the words.
      path: File of the cache. If None, the cache is only in memory.

    Raises:
      ExportError: If the keyboards cut text into words by different rules.
    """

    def __init__(
        self, keyboards: Iterable[Keyboard], cache: WordCache, path: pathlib.Path | None = None
    ):
        self._keyboards = [k for k in keyboards if isinstance(k, HybridKeyboard)]
        self.cache = cache
        self._path = path
        if len({keyboard.vocabulary.rules for keyboard in self._keyboards}) > 1:
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
          learn: False for a message that must not be learnt, such as a password.

        Raises:
          ProgramError: If the file cannot be written. The message is learnt in memory.
        """
        if not self.can_learn or not learn:
            return
        keyboard = self._keyboards[0]
        normalised = [word for typed in exempt_words for word in keyboard.network.words_of(typed)]
        for sentence in sentences.sentences_of(text):
            words = [word for run in sentence.split() for word in self._words_of_run(run)]
            if words:
                keyboard.learn(words, normalised)
        self._save()

    def _words_of_run(self, run: str) -> list[str | None]:
        """Returns the words of text without white space.

        A word that touches a digit becomes None, a gap.
        """
        words = self._keyboards[0].network.words_of(run)
        return [word if may_be_learnt(run) else None for word in words]

    @locked
    def forget(self, text: str) -> tuple[list[str], list[str]]:
        """Forgets every word of a text, as if it had never been typed.

        Returns:
          The words that were forgotten, and the words that were not in the cache.

        Raises:
          ProgramError: If the file cannot be written. The words are gone from memory only.
        """
        if not self.can_learn:
            return [], []
        words = dict.fromkeys(self._keyboards[0].network.words_of(text))
        forgotten = [word for word in words if word in self.cache.uses]
        self.cache.forget(words)
        self._save()
        return forgotten, [word for word in words if word not in forgotten]

    @locked
    def forget_all(self) -> None:
        """Empties the cache. Raises the errors of `forget`."""
        self.cache.forget_all()
        self._save()

    @locked
    def personal_dictionary(self) -> list[tuple[str, int]]:
        """Returns the words that some table lacks, with uses; those typed most and latest first."""
        tables = [keyboard.vocabulary for keyboard in self._keyboards]
        counts = self.cache.words
        personal_words = [
            (word, uses)
            for word, uses in self.cache.uses.items()
            if any(table.id_of(word) == OOV for table in tables)
        ]
        return sorted(personal_words, key=lambda item: (-counts[item[0]], item[0]))

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
