"""What keyboards of one owner have learnt, in memory or in a file of the owner's.

A message is learnt when it is sent, a sentence at a time, as the strip starts afresh with each. The
file (`predictors/hybrid/cache_file.py`) is replaced whole after every message and after everything
forgotten, so that what is gone from the strip is gone from the file. It is held by one process at a
time: a second one would write back what the first one forgot.
"""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator

from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.hybrid import cache_file
from tff_keyboard.predictors.hybrid.learnable import may_be_learnt
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage import exclusive_file
from tff_keyboard.storage.errors import ExportError
from tflite_export.keyboard import sentences
from tflite_export.runtime.hybrid_keyboard import HybridKeyboard, Keyboard


class Owner:
    """One person's words behind one or several keyboards, in `cache`. Not thread-safe, as they.

    Keyboards that do not learn are passed over. `path` is the cache's file; None keeps it in memory
    only. Raises `ExportError` if the keyboards cut text into words by different rules.
    """

    def __init__(
        self, keyboards: Iterable[Keyboard], cache: WordCache, path: pathlib.Path | None = None
    ):
        self._keyboards = [k for k in keyboards if isinstance(k, HybridKeyboard)]
        self.cache = cache
        self._path = path
        if len({keyboard.vocabulary.rules for keyboard in self._keyboards}) > 1:
            raise ExportError(
                "These models cut text into words by different rules and cannot learn one owner's "
                "words together. Open one at a time."
            )

    @property
    def can_learn(self) -> bool:
        """Whether any of the keyboards has a place for the owner's words."""
        return bool(self._keyboards)

    def learn(self, text: str, kept: Iterable[str] = (), *, learn: bool = True) -> None:
        """Learns a message that was sent; nothing of a field for passwords and the like (`learn`).

        `kept` are words of it of which a correction was taken back; they are corrected no more.
        Raises `ProgramError` if the file cannot be written; the message is learnt in memory.
        """
        if not self.can_learn or not learn:
            return
        keyboard = self._keyboards[0]
        insisted = [word for typed in kept for word in keyboard.network.words_of(typed)]
        for sentence in sentences.sentences_of(text):
            words = [word for run in sentence.split() for word in self._words_of_run(run)]
            if words:
                keyboard.learn(words, insisted)
        self._save()

    def _words_of_run(self, run: str) -> list[str | None]:
        """The words between white space; what is glued to a digit is a gap."""
        words = self._keyboards[0].network.words_of(run)
        return [word if may_be_learnt(run) else None for word in words]

    def forget(self, text: str) -> tuple[list[str], list[str]]:
        """Forgets every word of a text, as if it had never been typed.

        The words that were forgotten, and those that were not remembered. Raises `ProgramError` if
        the file cannot be written; the words are gone from memory only.
        """
        if not self.can_learn:
            return [], []
        words = dict.fromkeys(self._keyboards[0].network.words_of(text))
        forgotten = [word for word in words if word in self.cache.uses]
        self.cache.forget(words)
        self._save()
        return forgotten, [word for word in words if word not in forgotten]

    def forget_all(self) -> None:
        """Makes the cache as new; errors as of `forget`."""
        self.cache.forget_all()
        self._save()

    def own_words(self) -> list[tuple[str, int]]:
        """The words that no table has, with uses: those typed most and lately first."""
        tables = [keyboard.vocabulary for keyboard in self._keyboards]
        counts = self.cache.words
        found = [
            (word, uses)
            for word, uses in self.cache.uses.items()
            if any(table.id_of(word) == OOV for table in tables)
        ]
        return sorted(found, key=lambda item: (-counts[item[0]], item[0]))

    @property
    def num_words(self) -> int:
        """Distinct words remembered."""
        return len(self.cache.uses)

    def _save(self) -> None:
        if self._path is not None:
            cache_file.save(self.cache, self._path)


@contextlib.contextmanager
def held_cache(path: pathlib.Path | None) -> Iterator[tuple[WordCache, str | None]]:
    """The cache of a file, new or not, which no other process may open meanwhile; None: in memory.

    With it comes a line about a damaged file, whose place a fresh cache takes. Raises `ExportError`
    if another keyboard has it open, or its folder cannot be written to; `DataError` if the file
    cannot be read, or is something else than a cache.
    """
    if path is None:
        yield WordCache(), None
        return
    holding = exclusive_file.held(
        path.with_name(f".{path.name}.lock"),
        cannot=lambda why: ExportError(
            f"{path}: no cache can be kept there ({why}). Give another place."
        ),
        taken=ExportError(
            f"{path}: another keyboard has this cache open. Close it, or give another file."
        ),
    )
    with holding:
        yield cache_file.load_or_fresh(path)
