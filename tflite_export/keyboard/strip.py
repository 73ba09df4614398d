"""The strip as people expect it of a keyboard, made of what the model says.

The model knows lower-case words of one message. Here a sentence begins with a capital and without
the words of the one before, "i" is "I" and "dont" is "don't", a blocked word is never offered, a
misspelling is not offered beside the word it stands for, and a slip is corrected by a space where
that is clearly better. A capital inside a sentence is taken for a name's, which only a word with a
capital, or one that is nearly certain, corrects; what is glued to one of `GLUE` is no word of the
sentence and stays. The owner's own words, which a `HybridKeyboard` has, obey the same rules;
what looks like a slip is none of them before it is typed often (`own_words.py`), and what was typed
against a correction is not corrected again. Behind three letters no place stays empty that a word
one slip away can fill, or the word as it is typed. Of the lexicon beyond the table, what looks like
a misspelling of a common word is never offered.
"""

import dataclasses
import re
import time
from collections.abc import Iterable, Iterator

from tff_keyboard.data.text import casing
from tff_keyboard.predictors.predictor import Suggestion
from tflite_export.keyboard import sentences, truecase, typing_session
from tflite_export.keyboard.autocorrect import Autocorrect, frequencies_of
from tflite_export.keyboard.blocklist import Blocklist, packaged_entries
from tflite_export.keyboard.languages import LANGUAGES
from tflite_export.keyboard.misspellings import Misspellings
from tflite_export.keyboard.own_words import OwnWords
from tflite_export.keyboard.typing_session import SLOT_RANKS, SLOTS, Slot, SlottedStrip
from tflite_export.runtime.hybrid_keyboard import Keyboard
from tflite_export.runtime.word_frequencies import word_frequencies

_CANDIDATES = 4 * SLOTS  # words looked at where some of the best are not to be shown
GLUE = "@#\\_/:"  # of addresses, tags, names of files and of people
SURE_OF_A_NAME = 0.999  # probability from which on a word with a capital becomes one without
_FILLED_FROM = 3  # letters; before that the best words are too far from what is meant


@dataclasses.dataclass(frozen=True)
class _Typing:
    """What is being typed: the sentence's words, and the word at the cursor."""

    context: list[str]
    prefix: str  # normalised
    fragment: str  # as typed
    glued: bool  # whether one of `GLUE` stands in front, without white space between


@dataclasses.dataclass(frozen=True)
class _Correction:
    """Another form or word for the typed one."""

    form: str
    probability: float
    score: float  # rank among the words that go on from what is typed
    is_sure: bool  # whether a space makes it of the typed word

    def among(self, ranked: list[Suggestion]) -> list[Suggestion]:
        """The suggestions with this one in its place; a sure one is seen before it happens."""
        others = [suggestion for suggestion in ranked if suggestion[0] != self.form]
        place = sum(probability > self.score for _, probability in others)
        if self.is_sure:
            place = min(place, SLOTS - 1)
        return [*others[:place], (self.form, self.probability), *others[place:]][:SLOTS]


class StripKeyboard:
    """A model with manners. Not thread-safe, like the model.

    `language` is that of the packaged blocklist, the keys and the built-in forms; the vocabulary's
    if left out. "none" has no blocklist, no forms and no corrections.

    Attributes:
      code: The vocabulary's language, which decides capitals.
      language: Keys, slips and endings.
      withheld: Blocked words that the strips so far would have shown otherwise.
    """

    def __init__(
        self, predictor: Keyboard, language: str | None = None, blocked: Iterable[str] = ()
    ):
        self.predictor = predictor
        self.code = predictor.vocabulary.rules.language
        chosen = language or self.code
        self.language = LANGUAGES.get(chosen, LANGUAGES[self.code])
        self.withheld = 0
        self._blocklist = Blocklist([*packaged_entries(chosen), *blocked])
        self._truecase = truecase.Truecase(
            self.code, predictor.manifest.truecase, built_in=chosen == self.code
        )
        # A model of cased text has its own capitals.
        self._lowercase = predictor.vocabulary.rules.lowercase
        frequencies = word_frequencies(predictor.network)
        self._beyond = frequencies_of(predictor.tail)
        self._misspellings = Misspellings({**frequencies, **self._beyond}, self.language)
        self._autocorrect = (
            Autocorrect(predictor.vocabulary, frequencies, predictor.tail, self.language)
            if self._lowercase and chosen != "none"
            else None
        )
        self._own = OwnWords(predictor, self._autocorrect, self._form)

    def offers(self, word: str) -> bool:
        """Whether a word out of the table may stand on the strip."""
        return word in self._own.ids and word not in self._blocklist

    def strip_for(self, text: str, after: str = "") -> SlottedStrip:
        """Suggestions for the text before the cursor, each in its place.

        Where the text `after` the cursor goes on with the word, a tap replaces all of it.
        """
        start = time.perf_counter()
        typing = self._typing(sentences.sentence_of(text))
        rest = typing_session.rest_of_word(self.predictor, typing.fragment, after)
        correction = None if rest.letters else self._correction(typing)
        ranked = self._ranked(typing)
        if correction is not None:
            ranked = correction.among(ranked)
        if not rest.letters:
            ranked = self._filled(typing, ranked, correction)
        slots = [self._slot(typing, *suggestion, rest.characters) for suggestion in ranked]
        return SlottedStrip(
            tuple(slots[rank] if rank < len(slots) else None for rank in SLOT_RANKS),
            time.perf_counter() - start,
            self._slot(typing, correction.form, correction.probability, 0)
            if correction is not None and correction.is_sure
            else None,
        )

    def _typing(self, sentence: str) -> _Typing:
        context, prefix = self.predictor.context_and_prefix(sentence)
        fragment = typing_session.typed_fragment(self.predictor, sentence, prefix)
        run = re.split(r"\s", sentence[: len(sentence) - len(fragment)])[-1]
        return _Typing(context, prefix, fragment, any(mark in run for mark in GLUE))

    def _ranked(self, typing: _Typing) -> list[Suggestion]:
        """The best words that may be shown, in the form in which they are."""
        best: list[Suggestion] = []
        for count in (SLOTS, _CANDIDATES):
            found = self.predictor.suggest(typing.context, typing.prefix, count)
            best = list(self._shown(found))
            if len(best) >= SLOTS or len(found) < count:
                break
        self.withheld += sum(word in self._blocklist for word, _ in found[:SLOTS])
        return best[:SLOTS]

    def _shown(self, found: list[Suggestion]) -> Iterator[Suggestion]:
        probabilities = dict(found)
        seen = set()
        for word, probability in found:
            meant = self._misspellings.meant_by(word)
            if meant in probabilities:  # it is offered itself, and takes the better place
                word, probability = meant, probabilities[meant]
            elif meant is not None and word in self._beyond and word not in self._own.ids:
                continue
            form = self._form(word)
            if word in self._blocklist or form in seen or self._own.is_doubted(word):
                continue
            seen.add(form)
            yield form, probability

    def _filled(
        self, typing: _Typing, ranked: list[Suggestion], correction: _Correction | None
    ) -> list[Suggestion]:
        """The strip with its empty places taken by words one slip away and by what is typed.

        What is typed is never the best suggestion: where it would stand alone, the strip is empty.
        """
        typed, fragment = typing.prefix, typing.fragment
        if len(ranked) >= SLOTS or self._autocorrect is None or len(typed) < _FILLED_FROM:
            return ranked
        as_typed = [] if typed in self._blocklist else [(fragment, 0.0)]
        near = self._autocorrect.near(typed, self.predictor.next_word(typing.context), _CANDIDATES)
        shown = [(self._form(word), p) for word, p in near if word not in self._blocklist]
        # A correction that a space would make can be declined beforehand.
        first = as_typed if correction is not None and correction.is_sure else []
        seen = {self._cased(fragment, form) for form, _ in ranked}
        for form, probability in [*first, *shown, *as_typed]:
            cased = self._cased(fragment, form)
            if len(ranked) < SLOTS and cased not in seen and (ranked or cased != fragment):
                seen.add(cased)
                ranked = [*ranked, (form, probability)]
        return ranked

    def _correction(self, typing: _Typing) -> _Correction | None:
        """Another form or word for the typed one; None where it stays as it is."""
        typed, fragment = typing.prefix, typing.fragment
        # Capitals inside a word are meant; one in front may come from the shift key.
        if (
            not self._lowercase
            or not typed
            or fragment not in (typed, casing.capitalised(typed, self.code))
        ):
            return None
        if typing.glued or self._own.is_kept(typed):
            return None
        sure = self._truecase.sure_form(typed)
        if sure is not None:
            same = self._cased(fragment, sure) == fragment
            return None if same else _Correction(sure, 1.0, 1.0, is_sure=True)
        if self._autocorrect is None:
            return None
        next_word = self.predictor.next_word(typing.context)
        found = self._autocorrect.correct(
            typed, next_word, self._own.ids, as_typed=self._own.unlearnt(typing.context)
        )
        if found is not None and self._own.outweighs(typed, found.word):
            found = self._autocorrect.correct(typed, next_word, self._own.ids)
        if found is None or found.word in self._blocklist:
            return None
        form = self._form(found.word)
        is_name = bool(typing.context) and fragment[0].isupper() and not form[0].isupper()
        # The owner may know both of two names one slip apart.
        is_doubtful = found.probability < SURE_OF_A_NAME or found.word in self._own.ids
        is_sure = found.is_sure and not (is_name and is_doubtful)
        return _Correction(form, found.probability, found.score, is_sure)

    def _cased(self, fragment: str, form: str) -> str:
        return typing_session.in_case_of(fragment, form, self.code)

    def _form(self, word: str) -> str:
        return self._truecase.form(word) if self._lowercase else word

    def _slot(self, typing: _Typing, form: str, probability: float, taken_after: int) -> Slot:
        shown = self._cased(typing.fragment, form)
        if self._lowercase and not typing.context and not typing.fragment:
            shown = casing.capitalised(shown, self.code)
        return Slot(
            word=shown,
            probability=probability,
            replaces=len(typing.fragment),
            inserts=shown + " ",
            replaces_after=taken_after,
        )
