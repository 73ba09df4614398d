"""The recent words of one user: a unigram and a bigram whose counts decay.

    p(w | v) = (c(v w) + KAPPA c(w) / C) / (c(v) + KAPPA),    C = sum of all c(w)

An occurrence k words ago counts 2^(-k / half_life). Sources: Kuhn and De Mori 1990,
https://doi.org/10.1109/34.56193 (cache); Clarkson and Robinson 1997,
https://doi.org/10.1109/ICASSP.1997.596049 (decay).

Forgetting is exact. Counts are integers, in 2^-20 of an occurrence, and no count depends on another
word's count: a message multiplies every count by the same factor, rounded down, and adds only to
its own words. A cache that forgets a word is therefore bit for bit the cache that would exist if
the word had been a gap in all messages. A gap lets time pass, but starts and ends no pair.

In addition to its count, each remembered word has three facts that do not decay: how often it was
typed (`uses`), whether its owner rejected a correction of it (`exempt_words`), and how often it was
written in which way (`forms`), if it was ever written with a capital.

A count below `floor` occurrences is dropped, and all counts together are at most 1 / (1 - 2^(-1 /
half_life)), so fewer than 1.45 half_life / floor words (and as many pairs) are stored.
"""

import unicodedata
from collections.abc import Iterable, Sequence

from tff_keyboard.data.vocabulary import is_mask
from tff_keyboard.predictors.locking import Lock, locked

EDGE = ""  # before the first word of a message, and after its last
KAPPA = 1.0  # occurrences; weight of the unigram against the counts of a pair
LONGEST_HALF_LIFE = 1_000_000  # words
LONGEST_WORD = 40  # characters; longer strings are not useful suggestions

UNIT = 1 << 20
_PRECISION = 32  # bits of the decay

Counts = dict[str, int]


def may_be_learnt(text: str) -> bool:
    """Checks if a word, or the text between white space, may be remembered.

    Text with a digit of any script is never learnt, whether it is in the table or not, in one group
    or several ("4111", "98 76 54", "hunter2", "2nd"), nor is text that is joined to a digit without
    white space ("hunter_2", "hunter.2"). This excludes numbers of cards and accounts, codes and
    most passwords. A password of letters alone looks like a word, and is learnt if it is typed in a
    normal field: a password field must turn learning off.

    >>> [may_be_learnt(text) for text in ("johann", "covid-19", "7:30", "hunter_2", "x²")]
    [True, False, False, False, False]
    """
    has_digit = any(unicodedata.category(character)[0] == "N" for character in text)
    return not has_digit and not all(unicodedata.numeric(c, None) is not None for c in text)


class WordCache:
    """Counts of one user's words and word pairs.

    Args:
      half_life: In [1, 1,000,000] words. Users return to their current topics: 100 was best on
        `ubuntu_irc`, where most users write a hundred words or less, and 2,000 cost 2 % of
        perplexity. 300 with the default `floor` keeps a word for 1,700 words.
      floor: Smallest count, in [2^-20, 1) occurrences.

    Attributes:
      words: Counts in 1 / UNIT; `EDGE` counts ends of messages. Do not modify this or the other
        attributes.
      pairs: Counts of the words after each word; `EDGE` as a first word is the start of a message.
      uses: How often each word was typed since it is remembered, without `EDGE`.
      exempt_words: Words for which the owner rejected a correction.
      forms: Word -> how often it was written in each way, from the first capital on.
      lock: Held while the content changes. Hold it while you read several attributes.
      changes: Incremented whenever the content changes, so that derived values can be cached.

    Raises:
      ValueError: If an argument is out of range.
    """

    def __init__(self, half_life: int = 300, floor: float = 0.02):
        if not 1 <= half_life <= LONGEST_HALF_LIFE or not 1 / UNIT <= floor < 1:
            raise ValueError(
                f"`half_life` must be in [1, {LONGEST_HALF_LIFE:,}] words and `floor` in [2^-20, "
                f"1), got {half_life} and {floor}."
            )
        self.lock = Lock()
        self.half_life = half_life
        self.floor = floor
        self.words: Counts = {}
        self.pairs: dict[str, Counts] = {}
        self.uses: Counts = {}
        self.exempt_words: set[str] = set()
        self.forms: dict[str, Counts] = {}
        self._total = 0
        self.changes = 0

    @property
    def total(self) -> float:
        """C, in occurrences: about the number of typed words, until decay dominates."""
        return self._total / UNIT

    @locked
    def observe(
        self,
        message: Sequence[str | None],
        exempt_words: Iterable[str] = (),
        forms: Sequence[str | None] = (),
    ) -> None:
        """Learns the normalised words of a sent message; None is a gap.

        Masks, empty words and words longer than `LONGEST_WORD` are treated as gaps. The owner
        rejected a correction of each of the `exempt_words`. `forms` are the words as they were
        written, or None where that says nothing about a word; empty if it says nothing of any.
        """
        events = [*(self._learnable(word) for word in message), EDGE]
        written = [*(forms or [None] * len(message)), None]
        self._decay(len(events))
        before: str | None = EDGE
        ages = range(len(events) - 1, -1, -1)
        for age, event, form in zip(ages, events, written, strict=True):
            # The first words of a long message may decay before its end.
            count = (UNIT * self._factor(age)) >> _PRECISION
            if event is not None and count >= self._smallest:
                self.words[event] = self.words.get(event, 0) + count
                if event != EDGE:
                    self.uses[event] = self.uses.get(event, 0) + 1
                    if form is not None and (form != event or event in self.forms):
                        counts = self.forms.setdefault(event, {})
                        counts[form] = counts.get(form, 0) + 1
                if before is not None:
                    row = self.pairs.setdefault(before, {})
                    row[event] = row.get(event, 0) + count
            before = event
        self.exempt_words |= set(exempt_words) & set(message) & self.uses.keys()
        self._changed()

    @locked
    def forget(self, words: Iterable[str]) -> None:
        """Changes the cache as if these words had been gaps in every observed message."""
        for word in set(words) - {EDGE}:
            self.words.pop(word, None)
            self.uses.pop(word, None)
            self.exempt_words.discard(word)
            self.forms.pop(word, None)
            self.pairs.pop(word, None)
            for row in self.pairs.values():
                row.pop(word, None)
        self.pairs = {first: row for first, row in self.pairs.items() if row}
        self._changed()

    @locked
    def forget_all(self) -> None:
        """Removes everything from the cache."""
        self.words, self.pairs, self.uses, self.exempt_words = {}, {}, {}, set()
        self.forms = {}
        self._changed()

    def form(self, word: str) -> str:
        """Returns the form in which a word was written most often; of two, the one with capitals.

        >>> cache = WordCache()
        >>> for form in ("Kagi", "kagi", "KAGI", "Kagi"):
        ...     cache.observe(["kagi"], forms=[form])
        >>> cache.form("kagi"), cache.form("home")
        ('Kagi', 'home')
        """
        counts = self.forms.get(word, {})
        return max(counts, key=lambda form: (counts[form], form != word, form), default=word)

    def __eq__(self, other: object) -> bool:
        """Compares counts and parameters exactly."""
        if not isinstance(other, WordCache):
            return NotImplemented
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        facts = (self.uses, self.exempt_words, self.forms)
        return (self.half_life, self.floor, self.words, self.pairs, *facts)

    __hash__ = None  # type: ignore[assignment]  # it changes

    @locked
    def restore(
        self,
        words: Counts,
        pairs: dict[str, Counts],
        uses: Counts,
        exempt_words: Iterable[str],
        forms: dict[str, Counts] | None = None,
    ) -> None:
        """Replaces the content by counts from a file, without words that must not be learnt.

        Raises `ValueError` if `observe` cannot have produced these counts.
        """
        rows = [words, *pairs.values()]
        if not all(
            type(count) is int
            and self._smallest <= count
            and (word == EDGE or self._learnable(word) == word)
            for row in rows
            for word, count in row.items()
        ):
            raise ValueError("a word or a count is out of range")
        max_total = UNIT / (1 - 2 ** (-1 / self.half_life))
        if (
            sum(words.values()) > max_total
            or sum(sum(row.values()) for row in rows[1:]) > max_total
        ):
            raise ValueError("it has more entries than a cache can have")
        if not all(
            row and set(row) <= set(words) and (first == EDGE or self._learnable(first) == first)
            for first, row in pairs.items()
        ):
            raise ValueError("a pair has an invalid word")
        exempt_words = set(exempt_words)
        if uses.keys() != words.keys() - {EDGE} or not exempt_words <= uses.keys():
            raise ValueError("its words and their counts do not match")
        if not all(type(number) is int and number >= 1 for number in uses.values()):
            raise ValueError("a word or a count is out of range")
        forms = {} if forms is None else forms
        if not all(
            counts
            and all(type(number) is int and number >= 1 for number in counts.values())
            and sum(counts.values()) <= uses.get(word, 0)
            and all(len(form) == len(word) and may_be_learnt(form) for form in counts)
            for word, counts in forms.items()
        ):
            raise ValueError("a form of a word does not match the word")
        self.words, self.pairs = dict(words), {first: dict(row) for first, row in pairs.items()}
        self.uses, self.exempt_words = dict(uses), exempt_words
        self.forms = {word: dict(counts) for word, counts in forms.items()}
        self.forget(word for word in uses if not may_be_learnt(word))

    @property
    def _smallest(self) -> int:
        return int(UNIT * self.floor)

    def _learnable(self, word: str | None) -> str | None:
        """Returns the word, or None if it is too long or a mask."""
        if not word or len(word) > LONGEST_WORD or is_mask(word):
            return None
        return word

    def _factor(self, num_words: int) -> int:
        """Returns 2^(-words / half_life) in 2^-32, rounded down."""
        return int(2 ** (_PRECISION - num_words / self.half_life))

    def _decay(self, num_words: int) -> None:
        """Ages the counts by `num_words` words, and forgets words whose count is too small."""
        factor, min_count = self._factor(num_words), self._smallest

        def decayed(row: Counts) -> Counts:
            aged = {word: (count * factor) >> _PRECISION for word, count in row.items()}
            return {word: count for word, count in aged.items() if count >= min_count}

        self.words = decayed(self.words)
        self.uses = {word: uses for word, uses in self.uses.items() if word in self.words}
        self.exempt_words &= self.uses.keys()
        self.forms = {word: counts for word, counts in self.forms.items() if word in self.uses}
        rows = {first: decayed(row) for first, row in self.pairs.items()}
        self.pairs = {first: row for first, row in rows.items() if row}

    def _changed(self) -> None:
        self._total = sum(self.words.values())
        self.changes += 1
