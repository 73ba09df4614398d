"""Which of the words that an owner typed are the owner's words, and which may be slips.

A slip that was sent is in the owner's cache like any word. It must neither be offered nor switch
its correction off, so a word out of the table is the owner's

    once its owner took a correction of it back;
    or from the second use on, if it looks like no slip;
    or from the fourth, if it does, and once it has more uses than any word it may be a slip of.

It looks like a slip if, not knowing its sentence, Bayes' rule is as sure of one as it must be for a
space to correct (`autocorrect.py`), or if it has two letters and could be one.

A slip that the table itself holds ("teh") needs the same evidence before its uses count against the
correction.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tff_keyboard.data.text import casing
from tflite_export.keyboard.autocorrect import APPLIED_FROM, Autocorrect
from tflite_export.runtime.hybrid_keyboard import HybridKeyboard, Keyboard

DOUBTED_USES = 4

_ALWAYS_DOUBTED = 2  # letters: any two are likely enough as a word
_LEAST_TOTAL = 1_000  # words; of a small cache every word is frequent


class OwnWords:
    """The owner's words of a keyboard, until it learns or forgets; a network alone has none.

    `autocorrect` tells slips; None doubts nothing. `form` is how a word is shown, and so learnt:
    "don't" for "dont".
    """

    def __init__(
        self,
        keyboard: Keyboard,
        autocorrect: Autocorrect | None,
        form: Callable[[str], str] = lambda word: word,
    ):
        self._form = form
        self._language = keyboard.vocabulary.rules.language
        self._keyboard = keyboard if isinstance(keyboard, HybridKeyboard) else None
        self._autocorrect = autocorrect
        self._changes = -1
        self._ids: dict[str, int] = {}
        self._doubted: frozenset[str] = frozenset()

    @property
    def ids(self) -> Mapping[str, int]:
        """Ids, in `next_word`, of those that are in no table."""
        self._follow_cache()
        return self._ids

    def is_doubted(self, word: str) -> bool:
        """Whether a word has been typed often enough, and looks like a slip."""
        self._follow_cache()
        return word in self._doubted

    def is_kept(self, word: str) -> bool:
        """Whether its owner took a correction of this word back, be it in the table or not."""
        return self._keyboard is not None and word in self._keyboard.cache.kept

    def unlearnt(self, context: Sequence[str]) -> np.ndarray | None:
        """[V] what is likely behind a context without the owner's cache; None without one."""
        return None if self._keyboard is None else self._keyboard.without_cache(context)

    def outweighs(self, word: str, meant: str) -> bool:
        """Whether a word was typed often enough to be no slip of another."""
        return self._uses(word) >= DOUBTED_USES and self._uses(word) > self._uses(meant)

    def _uses(self, word: str) -> int:
        """Of a word, in whichever of its forms."""
        uses = {} if self._keyboard is None else self._keyboard.cache.uses
        return max(uses.get(word, 0), uses.get(casing.lower(self._form(word), self._language), 0))

    def _follow_cache(self) -> None:
        keyboard = self._keyboard
        if keyboard is None or keyboard.cache.changes == self._changes:
            return
        found = keyboard.own_ids
        self._doubted = frozenset(word for word in found if self._looks_like_a_slip(word, found))
        self._ids = {word: i for word, i in found.items() if word not in self._doubted}
        self._changes = keyboard.cache.changes

    def _looks_like_a_slip(self, word: str, own: Mapping[str, int]) -> bool:
        if self._autocorrect is None or self._keyboard is None or self.is_kept(word):
            return False
        uses = self._keyboard.cache.uses
        oftener = {other: count for other, count in uses.items() if count > uses[word]}
        total = max(_LEAST_TOTAL, sum(uses.values()))
        shares = {other: count / total for other, count in oftener.items()}
        candidates = [other for other in own if other in oftener]
        meant, share = self._autocorrect.slip_without_context(word, candidates, shares)
        if not meant or (share < APPLIED_FROM and len(word) > _ALWAYS_DOUBTED):
            return False
        return uses[word] < DOUBTED_USES or uses[word] <= max(map(self._uses, meant))
