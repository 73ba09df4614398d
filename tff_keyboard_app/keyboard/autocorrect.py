"""Corrects typed words with a noisy channel: language model times typing errors, by Bayes' rule.

    P(meant | typed, context) ~ P(meant | context) P(typed | meant)

The candidates compete with each other and with the typed string itself.

A string that is not a word competes with all words of vocabulary and tail lexicon that may be meant
(`spelling_index`). For these,

    P(meant | context) = half the model's probability + half the word's frequency

because users misspell rare words, which the model does not expect. The string itself has the
probability P(OOV | context) times the probability of its letters (`letter_model`), or of being a
form of a known word (`word_forms`).

A word competes only with words that are one slip of the finger away (`typo_channel`). Vocabularies
contain slips of users as well. A word of the vocabulary is therefore corrected only if slips
explain at least half of its frequency:

    sum of P(meant) P(typed | meant) over its neighbours >= P(typed) / 2

Any word may be typed for another one ("bigger then", "take a brake"). The word that slips and
spelling errors make the most likely one in this context is offered, but never applied.

If the touch of each letter is known, a Gaussian around each key (`touches.py`) takes the place of
the chance of a neighbouring key. Then words of two letters are corrected, too.

Marks are left out more often than they are typed (`missing_marks`). If a word is another word
without its marks ("el", "él"), only these two compete. The marked word is offered if it is
plausible, and applied if it is nearly certain in this context.
"""

import bisect
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import OOV, Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_app.keyboard.languages import LANGUAGES, Language
from tff_keyboard_app.keyboard.letter_model import LetterModel
from tff_keyboard_app.keyboard.missing_marks import WITHOUT_MARKS, MissingMarks
from tff_keyboard_app.keyboard.slip_costs import SlipCosts, Slips, slips_by_hand
from tff_keyboard_app.keyboard.spelling_index import SpellingIndex
from tff_keyboard_app.keyboard.touches import Touches, TouchModel
from tff_keyboard_app.keyboard.typed_cache import typed_cache
from tff_keyboard_app.keyboard.typo_channel import NEIGHBOUR, NO_SLIP, TypoChannel
from tff_keyboard_app.keyboard.word_forms import SHORTEST_STEM, WordForms

SHORTEST = 2  # letters; any single one is a word or its start
APPLIED_FROM = 0.9  # probability of having been meant, instead of a word
APPLIED_TO_SPELLING_FROM = 0.85  # the same, if the typed string is not a word
APPLIED_TO_UNMARKED_FROM = 0.97  # the same, if both are words and differ in marks alone
APPLIED_BEFORE_FROM = 0.95  # the same, for the word before the typed one
OFFERED_FROM = 0.2
_FORMS = 5  # of known words with marks that are considered
_BEST_OF_MARKED = 0.6  # share of the likeliest marked word among them
_OFFERED_UNMARKED_FROM = 0.001
_OFFERED_FOR_WORD_FROM = 0.02  # a strip has nothing better than rare words that begin with a word

_DOUBTED_FROM = 0.5
# The smallest share of a word among the words outside the vocabulary. Names have unusual spellings.
_FEWEST = 1e-10
# How much more a correction of a string that is not a word counts against words that begin with it.
_LIFT_OF_SPELLING = 30.0
_UNKNOWN = 0.05  # share of typed words that are not in the word table
_OLD_SPELLING = 0.1  # chance of one letter for a pair, of the words with the pair: "daß"
_MISSPELT = 0.1  # share of typed words that are misspellings of the index
_TRUST = 0.8  # exponent of a word's probability; below 1, the typed letters count more
_MEANT_SO = 0.05  # weight of a string in no list being meant as it is typed
# The share of a misspelling's meanings from which a word is compared with its uses.
_MIN_MEANT = 0.1
_BY_FREQUENCY = 0.5  # weight of a word's frequency, against the model's P(word | context)
_RUN = re.compile(r"(.)\1\1+")
_STRETCHED = re.compile(r"(.)\1\1(\1|$)")  # "soooo" is meant, and "necesssary" is a slip
# One digit, which may stand for a letter below it: "po8nt".
_DIGIT_HIT = re.compile(r"(?P<before>[^\W\d_]*)(?P<digit>[0-9])(?P<after>[^\W\d_]*)")
_SHORTEST_WITH_DIGIT = 5  # characters; "gr8t" is meant
_LONGEST_SHORT_FORM = 3  # letters
_LAST = "\U0010ffff"  # sorts after every letter
_NO_SLIP_AWAY = 1e-9  # of a word that only begins alike: ranks after all words one slip away
_FEWEST_SHARED = 2  # letters
_LAST_HIT_FROM = 0.01  # of the typed key's probability, of the last letter of another form
_ENOUGH_NEAR = 4  # words; one may stand on the strip already
_NOTHING: Mapping[str, int] = {}
_NO_SLIPS: Slips = {}


@dataclasses.dataclass(frozen=True)
class Correction:
    """A word that can replace the typed one."""

    word: str  # lower case, of the vocabulary
    probability: float
    # P(meant | context) P(typed | meant), which compares with P(word | context) of a word that
    # continues the typed letters
    score: float
    is_sure: bool  # whether a space applies it
    adds_marks: bool = False  # whether the typed word is this one without some of its marks


class Autocorrect:
    """Corrections of finished words, for lower-case vocabularies.

    Args:
      vocabulary: Words of the model.
      frequencies: Word -> frequency, from `word_frequencies`.
      tail: Words that are not in the vocabulary.
      language: Language of the keyboard layout.
      misspelt: Strings that users type but that are not words.
      slang: Strings that are words even if neither vocabulary nor lexicon has them.
      slips: Costs of slips, from `packaged_slips`.

    Attributes:
      frequencies: Word -> frequency, of the vocabulary and the tail.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        frequencies: Mapping[str, float],
        tail: TailLexicon | None = None,
        language: Language = LANGUAGES["en"],
        misspelt: Collection[str] = (),
        slang: Collection[str] = (),
        slips: Slips = _NO_SLIPS,
    ):
        self._misspelt = misspelt
        self._slang = slang
        self._channel = TypoChannel(language)
        self._touch_model = TouchModel(language)
        self._endings = language.forms
        self._pairs = {
            letter: plain
            for plain, letters in language.marked.items()
            for letter in letters
            if plain == plain[0] * 2
        }
        self._words = vocabulary.words
        self._ids = {word: i for i, word in enumerate(self._words) if i > OOV}
        self._sorted = sorted(self._ids)
        beyond = frequencies_of(tail)
        self.frequencies: Mapping[str, float] = {**frequencies, **beyond}
        self._letters = LetterModel(self._ids)
        self._beyond = {word: p for word, p in beyond.items() if word not in misspelt}
        self._marks = MissingMarks(
            (word for word in (*self._ids, *self._beyond) if word not in misspelt), language
        )
        words = [*(word for word in self._ids if word not in misspelt), *self._beyond]
        self._forms = (
            WordForms({word: self.frequencies.get(word, 0.0) for word in words}, language.vowels)
            if language.is_agglutinative
            else None
        )
        self._marked_endings = MissingMarks(self._forms.endings if self._forms else (), language)
        letters = {*"".join(words), *self._channel.neighbours, *self._channel.below}
        costs = SlipCosts(slips_by_hand(language) | dict(slips), letters)
        self._index = SpellingIndex(words, costs)
        # People type the same beginnings over and over.
        self._known_slips = typed_cache(self._slips, maxsize=4_000)
        self._known_spellings = typed_cache(self._index.near, maxsize=4_000)
        self._known_marks = typed_cache(self._marks_of, maxsize=4_000)
        self._known_near = typed_cache(self._near, maxsize=200)
        self._known_marked = typed_cache(self._marked_from, maxsize=4_000)
        # A key asks for the same candidates up to four times.
        self._known_candidates = typed_cache(self._candidates, maxsize=4)
        self._known_touched = typed_cache(self._slips_touched, maxsize=4)

    def correct(
        self,
        typed: str,
        next_word: np.ndarray,
        user_words: Mapping[str, int] = _NOTHING,
        *,
        as_typed: np.ndarray | None = None,
        touches: Touches | None = None,
    ) -> Correction | None:
        """Returns the most probable other word; None if no other word is probable enough.

        Args:
          typed: The typed word, normalised.
          next_word: Probabilities of the next word after the context, [V + own].
          user_words: Ids of the user's own words, which are not in the vocabulary.
          as_typed: Probabilities [V] for the case that a word of the vocabulary is meant as it is
            typed. If None, `next_word` is used.
          touches: Where the letters of `typed` were touched, if it is known.
        """
        correction = self._correct(typed, next_word, user_words, as_typed, touches)
        if correction is None or typed not in self._slang:
            return correction
        return dataclasses.replace(correction, is_sure=False)

    def _correct(
        self,
        typed: str,
        next_word: np.ndarray,
        user_words: Mapping[str, int],
        as_typed: np.ndarray | None,
        touches: Touches | None,
    ) -> Correction | None:
        """Returns the correction of a typed word, as `correct` does, but without its cache.

        A right word may lack marks, be a slip of another word, or be confused with one. Any other
        string is corrected to its most probable word.
        """
        has_digit = _DIGIT_HIT.fullmatch(typed) is not None
        if self.is_word(typed) or typed in user_words or len(typed) < SHORTEST:
            if has_digit:
                return None
            next_word_as_typed = (
                next_word if as_typed is None or typed not in self._ids else as_typed
            )
            marked = self.with_marks(typed, next_word, user_words, as_typed=next_word_as_typed)
            if len(typed) == 1 and touches is not None and marked is None:
                return self._other_key(typed, next_word, next_word_as_typed, user_words, touches)
            if not self._can_be_slip(typed) or (marked is not None and marked.is_sure):
                return marked
            slip = self._slip_of_word(typed, next_word, next_word_as_typed, user_words, touches)
            if slip is not None and slip.is_sure:
                return slip
            if marked is not None and slip is not None:  # "fu" is rather "du" than "für"
                return max(marked, slip, key=lambda other: other.probability)
            return (
                marked
                or slip
                or self._confused_word(typed, next_word, next_word_as_typed, user_words, touches)
            )
        if not self._can_be_slip(typed):
            return None
        slips = self._known_candidates(typed, tuple(user_words), touches)
        if not slips or not self._may_be_slip(typed, slips):
            return None
        scores = self._scores_of_spellings(slips, next_word, user_words)
        meant_so = _MEANT_SO * self._as_typed(typed, next_word, user_words) ** _TRUST
        best, probability = _best(scores, meant_so)
        if probability < OFFERED_FROM:
            return None
        score = min(1.0, slips[best] * _LIFT_OF_SPELLING) * self._next(best, next_word, user_words)
        with_marks = self._marked(typed, user_words).keys() & scores.keys()
        adds_marks = best in with_marks
        if adds_marks:  # some word with marks is meant, and this one is the most likely of them
            total = sum(scores[word] for word in with_marks)
            is_sure = (
                total * probability >= APPLIED_TO_SPELLING_FROM * scores[best]
                and scores[best] >= _BEST_OF_MARKED * total
            )
            is_form = best not in self.frequencies and best not in user_words
            if is_form and self._forms is not None and self._forms.frequency(typed) > 0.0:
                # Both strings may be forms that no list has.
                marked = self.with_marks(typed, next_word, user_words)
                is_sure = is_sure and marked is not None and marked.is_sure
        else:
            is_sure = probability >= APPLIED_TO_SPELLING_FROM
            is_sure = is_sure and not self._is_short_form(typed, best, touches)
        if has_digit:
            is_sure = is_sure and self._is_sure_hit(typed, best)
        return Correction(best, probability, score, is_sure, adds_marks)

    def completions(
        self, typed: str, next_word: np.ndarray, count: int
    ) -> list[tuple[str, float, float]]:
        """Returns the words that go on from `typed` if its missing marks are added.

        Args:
          typed: The letters typed so far, in small letters.
          next_word: Probabilities of the next word, [vocabulary].
          count: Number of words, at most.

        Returns:
          `(word, probability, score)`, the best score first. The score is the probability times
          P(`typed` | word), so that words which begin with `typed` itself have their probability
          as their score.
        """
        rows = self._known_marked(typed)
        if not rows.size:
            return []
        chance = self._marks.chance(typed)
        probabilities = next_word[rows]
        best = np.argsort(-probabilities, kind="stable")[:count]
        return [
            (self._words[rows[i]], float(probabilities[i]), chance * float(probabilities[i]))
            for i in best
        ]

    def _marked_from(self, typed: str) -> np.ndarray:
        """Returns the ids of the marked words of the vocabulary that go on from `typed`."""
        return np.array(
            [self._ids[word] for word in self._marks.words_from(typed) if word in self._ids], int
        )

    def lacks_marks(self, word: str, user_words: Collection[str] = ()) -> bool:
        """Returns whether a string may be a word without some of its marks."""
        return bool(self._marked(word, user_words))

    def with_marks(
        self,
        typed: str,
        next_word: np.ndarray,
        user_words: Mapping[str, int] = _NOTHING,
        *,
        as_typed: np.ndarray | None = None,
        following: Callable[[str], float] | None = None,
    ) -> Correction | None:
        """Returns the word that another word is without its marks, if it is plausible.

        Args:
          typed: A word, normalised.
          next_word: See `correct`.
          user_words: See `correct`.
          as_typed: See `correct`.
          following: Word -> probability of the word that follows, if it is typed.
        """
        marked = self._marked(typed, user_words)
        if not marked:
            return None
        if typed in self._ids:
            scores = self._scores(marked, next_word, user_words)
            next_word_as_typed = next_word if as_typed is None else as_typed
            unmarked_score = NO_SLIP * self._next(typed, next_word_as_typed, user_words)
        else:  # the context says nothing about words outside the vocabulary
            scores = self._scores_of_spellings(marked, next_word, user_words, trust=1.0)
            unmarked_score = NO_SLIP * self._likely(typed, next_word, user_words)
        best, probability = _best(scores, unmarked_score)
        if probability < _OFFERED_UNMARKED_FROM:
            return None
        # Text that lexicons are made of has many strings without marks; the vocabulary has few.
        sure_from = APPLIED_TO_UNMARKED_FROM if typed in self._ids else APPLIED_FROM
        if following is not None:
            sure_from = APPLIED_BEFORE_FROM
            other_scores = sum(scores.values()) - scores[best] + unmarked_score
            meant = scores[best] * following(best)
            not_meant = other_scores * following(typed)
            probability = meant / (meant + not_meant) if meant > 0.0 else 0.0
        is_sure = probability >= sure_from
        return Correction(best, probability, min(1.0, scores[best]), is_sure, adds_marks=True)

    def _marked(self, typed: str, user_words: Collection[str]) -> dict[str, float]:
        """Returns word -> P(typed | word) for the words that `typed` is without some marks."""
        return self._known_marks(typed) | self._marks.likely(typed, words=user_words)

    def _marks_of(self, typed: str) -> dict[str, float]:
        """Returns those of the lists, or else forms of their words that no list has."""
        marked = self._marks.likely(typed)
        if self._forms is None or marked or self.is_word(typed):
            return marked
        forms: dict[str, float] = {}
        for size in range(SHORTEST_STEM, len(typed)):
            stems = {typed[:size], *self._marks.likely(typed[:size])}
            endings = {typed[size:], *self._marked_endings.likely(typed[size:])}
            for stem in stems:
                for ending in endings:
                    frequency = self._forms.frequency_of(stem, ending)
                    if frequency > 0.0 and stem + ending != typed:
                        forms[stem + ending] = max(frequency, forms.get(stem + ending, 0.0))
        best = sorted(forms, key=forms.__getitem__, reverse=True)[:_FORMS]
        return self._marks.likely(typed, words=best)

    def _slip_of_word(
        self,
        typed: str,
        next_word: np.ndarray,
        judged: np.ndarray,
        user_words: Mapping[str, int],
        touches: Touches | None,
    ) -> Correction | None:
        """Returns the word of which a word is a slip of the finger, if slips explain its uses."""
        if len(typed) == SHORTEST and typed in self._ids and touches is None:
            return None  # a word, or a typing error: undecidable
        slips = self._slips_with(typed, user_words, touches)
        slip = self._best_slip(typed, slips, next_word, judged, user_words)
        if slip is None or slip.probability < OFFERED_FROM:
            return None
        is_short_form = self._is_short_form(typed, slip.word, touches)
        is_likely = slip.probability >= APPLIED_FROM
        if is_likely and typed not in self._ids:  # "fu" for "du"; like a string that is no word
            chance = min(1.0, slips[slip.word] * _LIFT_OF_SPELLING)
            score = chance * self._next(slip.word, next_word, user_words)
            slip = dataclasses.replace(slip, score=score)
        return dataclasses.replace(slip, is_sure=is_likely and not is_short_form)

    def _best_slip(
        self,
        typed: str,
        slips: Mapping[str, float],
        next_word: np.ndarray,
        judged: np.ndarray,
        user_words: Mapping[str, int],
    ) -> Correction | None:
        """Returns the likeliest word of `slips`, word -> P(typed | word), never as a sure one.

        None if slips do not explain the uses of the typed word.
        """
        if not slips or not self._may_be_slip(typed, slips):
            return None
        scores = self._scores(slips, next_word, user_words)
        best, probability = _best(scores, self._as_typed(typed, judged, user_words))
        return Correction(best, probability, min(1.0, scores[best]), is_sure=False)

    def _other_key(
        self,
        typed: str,
        next_word: np.ndarray,
        judged: np.ndarray,
        user_words: Mapping[str, int],
        touches: Touches,
    ) -> Correction | None:
        """Returns the letter that was meant by a single one, if it is nearly certain: "s" for "a".

        A single letter may be the start of any word, so nothing less certain is offered.
        """
        hits = self._touch_model.ratios(touches)[0] or {}
        slips = {key: NO_SLIP * ratio for key, ratio in hits.items() if key in self._ids}
        slip = self._best_slip(typed, slips, next_word, judged, user_words)
        if slip is None or slip.probability < APPLIED_FROM:
            return None
        return dataclasses.replace(slip, is_sure=True)

    def _confused_word(
        self,
        typed: str,
        next_word: np.ndarray,
        judged: np.ndarray,
        user_words: Mapping[str, int],
        touches: Touches | None,
    ) -> Correction | None:
        """Returns the word for which a word may have been typed by mistake."""
        scores = self._scores(
            self._known_candidates(typed, tuple(user_words), touches), next_word, user_words
        )
        if not scores:
            return None
        best, probability = _best(scores, self._next(typed, judged, user_words))
        if probability < _OFFERED_FOR_WORD_FROM:
            return None
        return Correction(best, probability, min(1.0, scores[best]), is_sure=False)

    def chance(
        self, word: str, next_word: np.ndarray, user_words: Mapping[str, int] = _NOTHING
    ) -> float:
        """Returns P(word | context) of any string, also of a misspelt one. See `correct`."""
        if word in self._ids or word in user_words or word in self._beyond:
            return self._next(word, next_word, user_words)
        return float(next_word[OOV]) * self._share_of_unknown(word)

    def keys_touched(self, touches: Touches | None) -> Sequence[Mapping[str, float] | None]:
        """Returns, for each letter, the keys that its touch may have meant; empty for None."""
        return () if touches is None else self._touch_model.ratios(touches)

    def weight_of_others(
        self,
        typed: str,
        next_word: np.ndarray,
        user_words: Mapping[str, int] = _NOTHING,
        touches: Touches | None = None,
    ) -> float:
        """Returns the sum of P(meant | context) P(typed | meant) over all single words.

        The sum includes the typed string itself. The probability of two words without a space
        between them is compared with it. The arguments are those of `correct`.
        """
        total = self._as_typed(typed, next_word, user_words)
        if self._can_be_slip(typed):
            slips = self._known_candidates(typed, tuple(user_words), touches)
            total += sum(
                self._scores_of_spellings(slips, next_word, user_words, trust=1.0).values()
            )
        return total

    def meant(
        self,
        typed: str,
        next_word: np.ndarray,
        user_words: Mapping[str, int],
        count: int,
        touches: Touches | None = None,
    ) -> list[tuple[str, float]]:
        """Returns at most `count` words that may be meant by a misspelt string, best first.

        Each comes with its probability after the context. The list is empty for a word. The
        arguments are those of `correct`.
        """
        if self.is_word(typed) or typed in user_words:
            return []
        if _STRETCHED.search(typed):
            scores = {
                word: self._next(word, next_word, user_words) for word in self._shortened(typed)
            }
        elif self._can_be_slip(typed):
            slips = self._known_candidates(typed, tuple(user_words), touches)
            scores = self._scores_of_spellings(slips, next_word, user_words)
        else:
            return []
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:count]
        return [(word, self._next(word, next_word, user_words)) for word in best]

    def _shortened(self, typed: str) -> list[str]:
        """Returns the words that a string is without repeated letters: "accesss" -> "access"."""
        twice = _RUN.sub(r"\1\1", typed)
        candidates = {twice, _RUN.sub(r"\1", typed)}
        return sorted(word for word in candidates if self.is_word(word))

    def slip_without_context(
        self,
        typed: str,
        user_words: Collection[str] = (),
        typed_share: Mapping[str, float] = _NOTHING,
    ) -> tuple[Collection[str], float]:
        """Returns the words that a string may be a slip of, and the probability that it is a slip.

        Args:
          typed: The string, normalised; not in the vocabulary.
          user_words: The user's own words; not in the vocabulary.
          typed_share: Word -> share of all words that this user typed.
        """
        if not self._can_be_slip(typed):
            return (), 0.0
        slips = self._slips_with(typed, user_words) | self._marked(typed, user_words)
        explained = {
            word: slip * (self.frequencies.get(word, 0.0) + typed_share.get(word, 0.0))
            for word, slip in slips.items()
        }
        if len(typed) > SHORTEST and not self.is_word(typed):
            for word, chance in self._known_spellings(typed).items():
                if not self._is_form_of(typed, word):
                    frequency = self.frequencies.get(word, 0.0) + typed_share.get(word, 0.0)
                    score = _MISSPELT * chance * frequency
                    explained[word] = max(explained.get(word, 0.0), score)
        slipped = sum(explained.values())
        as_typed = _UNKNOWN * self._share_of_unknown(typed) * NO_SLIP
        likely = [
            word
            for word, score in explained.items()
            if word in slips or score >= _MIN_MEANT * slipped
        ]
        return likely, slipped / (slipped + as_typed)

    def near(self, typed: str, next_word: np.ndarray, count: int) -> list[tuple[str, float]]:
        """Returns at most `count` words with a beginning like `typed`, and their probabilities.

        Words whose beginning is one slip away come first, best first, and then words with the same
        first letters.
        """
        if not self._can_be_slip(typed):
            return []
        scores: dict[str, float] = {}
        for word, slip in self._known_near(typed):
            scores[word] = max(scores.get(word, 0.0), slip * float(next_word[self._ids[word]]))
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:count]
        return [(word, float(next_word[self._ids[word]])) for word in best]

    def one_slip_away(self, typed: str) -> Mapping[str, float]:
        """Returns word -> P(typed | word) of the words of the vocabulary one slip from a word.

        Empty for a string that is not a word, and for short forms and forms of the same word.
        """
        if not self.is_word(typed) or not self._can_be_slip(typed) or typed in self._slang:
            return {}
        return {
            word: slip
            for word, slip in self._known_slips(typed).items()
            if word not in self._misspelt
            and (len(typed) == SHORTEST or not self._is_short_form(typed, word))
        }

    def _can_be_slip(self, typed: str) -> bool:
        """Checks if a string is long enough, on the keyboard's letters, and not like "sooo"."""
        return (
            len(typed) >= SHORTEST
            and all(letter in self._channel.neighbours for letter in _without_digit(typed))
            and not _STRETCHED.search(typed)
        )

    def _slips(self, typed: str) -> dict[str, float]:
        return self._slips_among(typed, self._ids)

    def is_word(self, typed: str) -> bool:
        """Returns whether vocabulary, lexicon or slang has a string, and `misspelt` does not."""
        return typed not in self._misspelt and (
            typed in self._ids or typed in self._beyond or typed in self._slang
        )

    def _candidates(
        self, typed: str, user_words: tuple[str, ...], touches: Touches | None = None
    ) -> dict[str, float]:
        """Returns word -> P(typed | word), the larger one of a slip and of a spelling error."""
        if _DIGIT_HIT.fullmatch(typed):
            return self._digit_hits(typed, user_words)
        slips = self._slips_with(typed, user_words, touches)
        if touches is None:
            spellings = self._known_spellings(typed) | self._index.likely(typed, user_words)
        else:
            touched = self._touch_model.ratios(touches)
            spellings = self._index.near(typed, touched)
            spellings |= self._index.likely(typed, user_words, touched)
        spellings |= self._with_pairs(typed)
        candidates = {
            word: max(slips.get(word, 0.0), _MISSPELT * spellings.get(word, 0.0))
            for word in {**slips, **spellings}
            if word not in self._misspelt
            and (not self._is_form_of(typed, word) or self._is_last_hit(word, touches))
        }
        return candidates | self._marked(typed, user_words)

    def _with_pairs(self, typed: str) -> dict[str, float]:
        """Returns word -> P(typed | word) if pairs of letters make a word of it: "dass" for "daß".

        Only for words of the vocabulary, because lexicons also have the Swiss "aussenwirkung".
        """
        respelt = typed
        for letter, pair in self._pairs.items():
            respelt = respelt.replace(letter, pair)
        is_other = respelt != typed and respelt in self._ids and respelt not in self._misspelt
        return {respelt: _OLD_SPELLING} if is_other else {}

    def _digit_hits(self, typed: str, user_words: tuple[str, ...]) -> dict[str, float]:
        """Returns word -> P(typed | word) for words with a letter below the digit in its place.

        In the shortest strings, another letter may be a slip as well: "5p" for "to". Short ones
        stand only for words of the vocabulary.
        """
        is_long = len(typed) >= _SHORTEST_WITH_DIGIT
        hits: dict[str, float] = {}
        for string in self._below_digit(typed):
            chance = NEIGHBOUR / len(typed)
            is_word = self.is_word(string) and (is_long or string in self._ids)
            if is_word or string in user_words:
                hits[string] = max(chance, hits.get(string, 0.0))
            slips = self._slips_with(string, user_words) if len(typed) == SHORTEST else {}
            for word, slip in slips.items():
                if word not in self._misspelt:
                    hits[word] = max(chance * slip, hits.get(word, 0.0))
        return hits

    def _below_digit(self, typed: str) -> list[str]:
        """Returns the strings with each of the letters below the digit in its place."""
        hit = _DIGIT_HIT.fullmatch(typed)
        assert hit is not None
        return [hit["before"] + x + hit["after"] for x in self._channel.below[hit["digit"]]]

    def _is_sure_hit(self, typed: str, meant: str) -> bool:
        """Returns whether a digit is surely a slip: "po8nt". "gr8t" and "class6" are meant."""
        is_one_slip = meant in self._ids and meant in self._below_digit(typed)
        return is_one_slip and len(typed) >= _SHORTEST_WITH_DIGIT and not typed[-1].isdigit()

    def _scores(
        self, slips: Mapping[str, float], next_word: np.ndarray, user_words: Mapping[str, int]
    ) -> dict[str, float]:
        """Returns word -> P(word | context) P(typed | word)."""
        return {
            word: slip * self._next(word, next_word, user_words) for word, slip in slips.items()
        }

    def _next(self, word: str, next_word: np.ndarray, user_words: Mapping[str, int]) -> float:
        """Returns P(word | context)."""
        row = self._ids.get(word, user_words.get(word))
        if row is not None:
            return float(next_word[row])
        return float(next_word[OOV]) * self._share_of_unknown(word)

    def _scores_of_spellings(
        self,
        slips: Mapping[str, float],
        next_word: np.ndarray,
        user_words: Mapping[str, int],
        trust: float = _TRUST,
    ) -> dict[str, float]:
        """Returns word -> its posterior without a common factor, if `typed` is not a word."""
        scores = {}
        for word, slip in slips.items():
            scores[word] = slip * self._likely(word, next_word, user_words) ** trust
        return scores

    def _likely(self, word: str, next_word: np.ndarray, user_words: Mapping[str, int]) -> float:
        """Returns half P(word | context) plus half the word's frequency."""
        in_context = self._next(word, next_word, user_words)
        frequency = self.frequencies.get(word, in_context)  # of the owner's words unknown
        return (1.0 - _BY_FREQUENCY) * in_context + _BY_FREQUENCY * frequency

    def _slips_with(
        self, typed: str, user_words: Collection[str], touches: Touches | None = None
    ) -> dict[str, float]:
        """Returns word -> P(typed | word) of the vocabulary and the user's words, one slip away."""
        slips = self._known_slips(typed) if touches is None else self._known_touched(touches)
        if any(_may_be_one_slip(typed, word) for word in user_words):
            slips = {**slips, **self._slips_among(typed, user_words, touches)}
        return slips

    def _slips_touched(self, touches: Touches) -> dict[str, float]:
        return self._slips_among(touches.typed, self._ids, touches)

    def _slips_among(
        self, typed: str, words: Container[str], touches: Touches | None = None
    ) -> dict[str, float]:
        """Returns word -> P(typed | word) for the words that are one slip away."""
        slips: dict[str, float] = {}
        for word, slip in self._channel.meant_words(typed, self.keys_touched(touches)):
            if word in words and (
                not self._are_forms_of_one(typed, word) or self._is_last_hit(word, touches)
            ):
                slips[word] = slips.get(word, 0.0) + slip
        return slips

    def _is_short_form(self, typed: str, meant: str, touches: Touches | None = None) -> bool:
        """Returns whether `typed` is a short form that users write on purpose: "knw", "jus"."""
        if touches is not None and len(typed) == len(meant):
            return False
        if len(typed) <= SHORTEST:
            return True
        if meant == typed + "g" and typed.endswith("in"):
            return True
        if len(typed) > _LONGEST_SHORT_FORM or typed[0] != meant[0]:
            return False
        letters_of_meant = iter(meant)
        is_shortened = typed != meant and all(letter in letters_of_meant for letter in typed)
        doubled = {typed[:i] + letter + typed[i:] for i, letter in enumerate(typed)}
        return is_shortened and meant not in doubled

    def _is_last_hit(self, word: str, touches: Touches | None) -> bool:
        """Returns whether the last touch may have meant the last letter of a word of that length.

        Then "wouls" is a slip of "would", and not another form of it.
        """
        if touches is None or len(word) != len(touches.typed):
            return False
        hits = self._touch_model.ratios(touches)[-1] or {}
        return hits.get(word[-1], 0.0) >= _LAST_HIT_FROM

    def _is_form_of(self, typed: str, word: str) -> bool:
        """Returns whether a string may be a form of `word` that no list has. "addresss" is not."""
        return (
            len(typed) >= len(word)
            and typed[-1] != typed[-2]
            and self._are_forms_of_one(typed, word)
        )

    def _are_forms_of_one(self, word: str, other: str) -> bool:
        """Returns whether two words differ only in a last letter: "graduate" and "graduates"."""
        longer, shorter = (word, other) if len(word) >= len(other) else (other, word)
        if longer == shorter + shorter[-1:]:
            return False  # "kann" is no form of "kan"
        stem, endings = longer[:-1], self._endings
        return longer[-1] in endings and shorter in (stem, *(stem + x for x in endings))

    def _near(self, typed: str) -> list[tuple[str, float]]:
        """Returns words with a weight, by which `near` multiplies their probability."""
        if _DIGIT_HIT.fullmatch(typed):
            starts = [] if self.is_word(typed) else self._below_digit(typed)
            return [(word, 1.0) for start in starts for word in self._words_from(start)]
        neighbours = [(self._words[row], WITHOUT_MARKS) for row in self._known_marked(typed)]
        neighbours += [
            (word, slip)
            for start, slip in self._channel.meant_words(typed)
            for word in self._words_from(start)
        ]
        for length in range(len(typed) - 1, _FEWEST_SHARED - 1, -1):
            if len({word for word, _ in neighbours}) >= _ENOUGH_NEAR:
                break
            neighbours += [(word, _NO_SLIP_AWAY) for word in self._words_from(typed[:length])]
        return neighbours

    def _words_from(self, start: str) -> list[str]:
        """Returns the words of the vocabulary that begin with `start`."""
        first = bisect.bisect_left(self._sorted, start)
        return self._sorted[first : bisect.bisect_left(self._sorted, start + _LAST)]

    def _may_be_slip(self, typed: str, slips: Mapping[str, float]) -> bool:
        """Checks if slips of other words explain enough of the frequency of the typed one."""
        if typed in self._misspelt:
            return True
        explained = sum(slip * self.frequencies.get(word, 0.0) for word, slip in slips.items())
        return explained >= _DOUBTED_FROM * self.frequencies.get(typed, 0.0)

    def _as_typed(self, typed: str, next_word: np.ndarray, user_words: Mapping[str, int]) -> float:
        """Returns the probability that the typed string is the meant one."""
        row = self._ids.get(typed) if typed not in self._misspelt else None
        if row is not None:
            # What slips do not explain; `_may_be_slip` left at most half of it.
            return NO_SLIP * float(next_word[row]) * (1.0 - _DOUBTED_FROM)
        if typed in user_words:
            return NO_SLIP * float(next_word[user_words[typed]])
        return NO_SLIP * float(next_word[OOV]) * self._share_of_unknown(typed)

    def _share_of_unknown(self, typed: str) -> float:
        """Returns the probability that a word that is not in the vocabulary is this one."""
        if typed in self._beyond:
            return self._beyond[typed] / _UNKNOWN
        as_form = self._forms.frequency(typed) / _UNKNOWN if self._forms is not None else 0.0
        return max(_FEWEST, as_form, math.exp(self._letters.log_probability(typed)))


def _best(scores: Mapping[str, float], other: float) -> tuple[str, float]:
    """Returns the best candidate, and its share of all scores and the `other` one."""
    best = max(scores, key=scores.__getitem__)
    total = sum(scores.values()) + other
    return best, scores[best] / total if total > 0.0 else 0.0


def frequencies_of(tail: TailLexicon | None) -> dict[str, float]:
    """Returns word -> probability without context, for the words of a lexicon."""
    if tail is None:
        return {}
    # Few shares differ, and one object for each saves 3 MB.
    objects = {share: _UNKNOWN * share for share in np.unique(tail.shares).tolist()}
    shares = map(objects.__getitem__, tail.shares.tolist())
    return dict(zip(tail.words, shares, strict=True))


def _without_digit(typed: str) -> str:
    """Returns the word without its digit, if it has only one."""
    return _DIGIT_HIT.sub(r"\g<before>\g<after>", typed) if _DIGIT_HIT.fullmatch(typed) else typed


def _may_be_one_slip(typed: str, word: str) -> bool:
    """Returns False if the words cannot be one slip apart. A quick check: True proves nothing."""
    return abs(len(typed) - len(word)) <= 1 and (typed[0] == word[0] or typed[-1] == word[-1])
