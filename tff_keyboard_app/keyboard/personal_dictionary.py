"""Decides which words that a user typed are the user's own words, and which may be slips.

A slip that was sent is in the user's cache like any other word. It must neither be suggested nor
disable its correction. Therefore a word that is not in the table becomes the user's own

    when its user took a correction of it back;
    or from the second use on, if it does not look like a slip;
    or from the fourth use on, if it does, and if it has more uses than any word that it may be a
    slip of.

A word looks like a slip if Bayes' rule, without its sentence, is as sure of a slip as a correction
by a space requires (`autocorrect.py`), or if it has two letters and could be a slip. A slip that is
in the table itself ("teh") needs the same evidence before its uses count against the correction.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tff_keyboard.data.text import casing
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.hybrid.word_cache import EDGE, UNIT
from tff_keyboard_app.keyboard.autocorrect import APPLIED_FROM, Autocorrect
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, Keyboard

DOUBTED_USES = 4

_USUAL_USES = 2  # of a known word with capitals
_HABIT = 2.5  # occurrences: three, less the decay of the cache
_SHARE_OF_HABIT = 0.25
_ALWAYS_DOUBTED = 2  # letters; any two letters are plausible as a word
_MIN_TOTAL = 1_000  # words; in a small cache every word would look frequent


class PersonalDictionary:
    """The user's own words of a keyboard. They are updated when the cache changes.

    A network alone has none.

    Args:
      keyboard: The keyboard.
      autocorrect: Finds slips. If None, no word is doubted.
      form: Returns the form in which a word is shown, and therefore learnt: "don't" for "dont".
    """

    def __init__(
        self,
        keyboard: Keyboard,
        autocorrect: Autocorrect | None,
        form: Callable[[str], str] = lambda word: word,
    ):
        self._form = form
        self._language = keyboard.vocabulary.rules.language
        self._keyboard = keyboard if isinstance(keyboard, HybridKeyboardPredictor) else None
        self._autocorrect = autocorrect
        self._changes = -1
        self._ids: dict[str, int] = {}
        self._targets: dict[str, int] = {}
        self._doubted: frozenset[str] = frozenset()

    @property
    def ids(self) -> Mapping[str, int]:
        """Ids, in `next_word`, of the own words that are not in the table."""
        self._follow_cache()
        return self._ids

    @property
    def targets(self) -> Mapping[str, int]:
        """Those of `ids` that other strings may be corrected to: words used more than once.

        A word of which a correction was taken back is an own word at once, and may still be a slip.
        """
        self._follow_cache()
        return self._targets

    def written(self, word: str) -> str | None:
        """Returns the form with capitals in which the user writes a word; None if there is none.

        One use is enough for a word that the keyboard does not know. Words that it knows must have
        been written so at least twice, and in most cases: "will" does not become "Will" at once.
        """
        if self._keyboard is None:
            return None
        cache = self._keyboard.cache
        form = cache.form(word)
        if form == word and word.endswith("'s"):
            stem = self.written(word.removesuffix("'s"))
            return None if stem is None else f"{stem}'s"
        if form == word or casing.lower(form, self._language) != word:
            return None
        is_known = self._keyboard.vocabulary.id_of(word) != OOV or (
            self._autocorrect is not None and self._autocorrect.is_word(word)
        )
        uses = cache.forms[word][form]
        is_usual = uses >= _USUAL_USES and 2 * uses > cache.uses[word]
        return form if is_usual or not is_known else None

    def is_doubted(self, word: str) -> bool:
        """Returns whether a word has been typed often enough but looks like a slip."""
        self._follow_cache()
        return word in self._doubted

    def is_exempt(self, word: str) -> bool:
        """Returns whether the user took a correction of this word back. It may be in the table."""
        return self._keyboard is not None and word in self._keyboard.cache.exempt_words

    def habit(self, previous: str) -> str | None:
        """Returns the word that the user has typed after another word at least three times lately.

        It is the most frequent next word, if it makes up a quarter of the next words; otherwise
        None.
        """
        if self._keyboard is None:
            return None
        followers = self._keyboard.cache.pairs.get(previous, {})
        word = max(followers, key=followers.__getitem__, default=EDGE)
        is_habit = followers.get(word, 0) >= max(
            _HABIT * UNIT, _SHARE_OF_HABIT * sum(followers.values())
        )
        return word if is_habit and word != EDGE else None

    def unlearnt(self, context: Sequence[str]) -> np.ndarray | None:
        """Returns probabilities [V] after a context without the user's cache, if there is one."""
        return None if self._keyboard is None else self._keyboard.without_cache(context)

    def outweighs(self, word: str, meant: str) -> bool:
        """Returns whether a word was typed too often to be a slip of another word."""
        return self._uses(word) >= DOUBTED_USES and self._uses(word) > self._uses(meant)

    def _uses(self, word: str) -> int:
        """Returns the number of uses of a word, in any of its forms."""
        uses = {} if self._keyboard is None else self._keyboard.cache.uses
        return max(uses.get(word, 0), uses.get(casing.lower(self._form(word), self._language), 0))

    def _follow_cache(self) -> None:
        """Decides again which words are doubted, if the cache has changed."""
        keyboard = self._keyboard
        if keyboard is None or keyboard.cache.changes == self._changes:
            return
        ids = keyboard.own_ids
        self._doubted = frozenset(word for word in ids if self._looks_like_a_slip(word, ids))
        self._ids = {word: i for word, i in ids.items() if word not in self._doubted}
        uses = keyboard.cache.uses
        self._targets = {word: i for word, i in self._ids.items() if uses[word] > 1}
        self._changes = keyboard.cache.changes

    def _looks_like_a_slip(self, word: str, user_words: Mapping[str, int]) -> bool:
        """Returns whether a word is probably a slip of a more frequent word of the user."""
        if self._autocorrect is None or self._keyboard is None or self.is_exempt(word):
            return False
        uses = self._keyboard.cache.uses
        oftener = {other: count for other, count in uses.items() if count > uses[word]}
        total = max(_MIN_TOTAL, sum(uses.values()))
        shares = {other: count / total for other, count in oftener.items()}
        candidates = [other for other in user_words if other in oftener]
        meant, share = self._autocorrect.slip_without_context(word, candidates, shares)
        if not meant or (share < APPLIED_FROM and len(word) > _ALWAYS_DOUBTED):
            return False
        return uses[word] < DOUBTED_USES or uses[word] <= max(map(self._uses, meant))
