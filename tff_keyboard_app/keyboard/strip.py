"""Turns the suggestions of a model into the strip of a keyboard, and corrects words.

The model knows lower-case words of one message. The strip adds these rules:

- A sentence begins with a capital. The words of the sentence before it do not count.
- "i" is shown as "I", and "dont" as "don't". A blocked word is never offered.
- A misspelling is not offered next to the word that it stands for. A word of the tail lexicon that
  looks like a misspelling of a common word is never offered.
- A space corrects a word if the correction is nearly certain: "alot" becomes two words
  (`missing_spaces.py`), and "ill" becomes "I'll" if the words around it suggest it, also after the
  next word is typed (`apostrophes.py`).
- A word with a capital inside a sentence is taken for a name. It is corrected only to a word with a
  capital, or to a word that is nearly certain. A word attached to one of `GLUE` is not corrected.
- The user's own words, which a `HybridKeyboard` has, obey the same rules. A new word that looks
  like a slip becomes an own word only after several uses (`personal_dictionary.py`). If the user
  took back the correction of a word, it is not corrected again.
- After three letters, empty places are filled with words one slip away, and then with the typed
  word.
"""

import dataclasses
import re
import time
from collections.abc import Iterable, Iterator

from tff_keyboard.data.text import casing
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.locking import Lock, locked
from tff_keyboard.predictors.predictor import Suggestion
from tff_keyboard_app.keyboard import apostrophes, sentences, truecase, typing_session
from tff_keyboard_app.keyboard.apostrophes import Apostrophes
from tff_keyboard_app.keyboard.autocorrect import OFFERED_FROM, Autocorrect, frequencies_of
from tff_keyboard_app.keyboard.blocklist import Blocklist, packaged_entries
from tff_keyboard_app.keyboard.emoji import EmojiWords, is_emoji
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.missing_spaces import JOINED, MissingSpaces
from tff_keyboard_app.keyboard.misspellings import (
    Misspellings,
    packaged_misspellings,
    packaged_slang,
)
from tff_keyboard_app.keyboard.personal_dictionary import PersonalDictionary
from tff_keyboard_app.keyboard.slip_costs import packaged_slips
from tff_keyboard_app.keyboard.typing_session import SLOT_RANKS, SLOTS, KeyboardStrip, Slot
from tff_keyboard_app.keyboard.word_frequencies import word_frequencies
from tflite_export.format import tail_file
from tflite_export.runtime.hybrid_keyboard import Keyboard

_CANDIDATES = 4 * SLOTS  # words looked at where some of the best are not to be shown
GLUE = "@#\\_/:"  # of addresses, tags, names of files and of people
SURE_OF_A_NAME = 0.999  # probability from which on a word with a capital becomes one without
_CUT_MADE_FROM = 0.98  # probability; "hostname" and "ifconfig" stay whole
_SURPLUS_SPACE = 0.001  # chance of one inside a word
_JOINED_FROM = 0.9  # probability from which on a surplus space is taken away
_SHORTEST_REJOINED = 2  # letters after the space
_CUT_FROM = 0.25  # of the weight of what else the typed word may be
_FILLED_FROM = 3  # letters; before that the best words are too far from the intended one


@dataclasses.dataclass(frozen=True)
class _Typing:
    """The text of a sentence up to the cursor: its words, and the word at the cursor."""

    context: list[str]
    prefix: str  # normalised
    fragment: str  # as typed
    is_attached: bool  # whether one of `GLUE` stands in front, without white space between
    sentence: str  # up to the cursor, as typed

    @property
    def is_capital_inside(self) -> bool:
        """Returns whether the word has a capital and is not the first of its sentence."""
        return bool(self.context) and self.fragment[:1].isupper()


@dataclasses.dataclass(frozen=True)
class _Correction:
    """Another form or another word that can replace the typed one."""

    form: str
    probability: float
    score: float  # rank among the words that continue the typed letters
    is_sure: bool  # whether a space makes it of the typed word
    before: int = 0  # characters before the typed word that it replaces, too

    def among(self, ranked: list[Suggestion]) -> list[Suggestion]:
        """Inserts the correction into the suggestions. A sure one always gets a place."""
        others = [suggestion for suggestion in ranked if suggestion[0] != self.form]
        slot = sum(probability > self.score for _, probability in others)
        if self.is_sure:
            slot = min(slot, SLOTS - 1)
        return [*others[:slot], (self.form, self.probability), *others[slot:]][:SLOTS]


class AppKeyboard:
    """A model with the rules of a keyboard. Several threads may use it, like the model.

    Args:
      predictor: The model.
      language: Language of the packaged blocklist, the keys and the built-in forms. Default: the
        language of the vocabulary. "none" has no blocklist, no forms and no corrections.
      blocked: Further words of the blocklist.
      emoji: Whether emoji are offered after matching words.

    Attributes:
      code: Language of the vocabulary, which determines capitals.
      language: Keys, slips and endings.
      withheld: Number of blocked words that the strips so far did not show.
    """

    def __init__(
        self,
        predictor: Keyboard,
        language: str | None = None,
        blocked: Iterable[str] = (),
        *,
        emoji: bool = True,
    ):
        self.predictor = predictor
        self.code = predictor.vocabulary.rules.language
        language_code = language or self.code
        self.language = LANGUAGES.get(language_code, LANGUAGES[self.code])
        self.withheld = 0
        self._blocklist = Blocklist([*packaged_entries(language_code), *blocked])
        self._truecase = truecase.Truecase(
            self.code,
            [*_names(predictor, self.code), *predictor.manifest.truecase],
            built_in=language_code == self.code,
        )
        # A model of cased text has its own capitals.
        self._lowercase = predictor.vocabulary.rules.lowercase
        frequencies = word_frequencies(predictor.network)
        self._joined = JOINED.get(language_code, {})
        self._misspelt = packaged_misspellings(language_code) | self._joined.keys()
        self._autocorrect = (
            Autocorrect(
                predictor.vocabulary,
                frequencies,
                predictor.tail,
                self.language,
                self._misspelt | self._truecase.without_apostrophe,
                packaged_slang(language_code),
                packaged_slips(language_code),
            )
            if self._lowercase and language_code != "none"
            else None
        )
        self._misspellings = Misspellings(
            self._autocorrect.frequencies
            if self._autocorrect is not None
            else {**frequencies, **frequencies_of(predictor.tail)},
            self.language,
        )
        self._emoji = EmojiWords(language_code) if emoji else None
        self._personal_dictionary = PersonalDictionary(predictor, self._autocorrect, self._form)
        self._ids = {
            word: i
            for i, word in enumerate(predictor.vocabulary.words)
            if i > OOV and word not in self._misspelt
        }
        self._apostrophes = Apostrophes(
            predictor, self._ids, language_code if language_code == self.code else ""
        )
        self._spaces = MissingSpaces(predictor, frequencies, self._ids, self.language.keys[-1])

    @property
    def lock(self) -> Lock:
        """The lock of the model. A strip holds it, so that no other thread changes the words."""
        return self.predictor.lock

    @locked
    def offers(self, word: str) -> bool:
        """Returns whether a word that is not in the vocabulary may be on the strip."""
        return word in self._personal_dictionary.ids and word not in self._blocklist

    @locked
    def keyboard_strip(self, text: str, after: str = "") -> KeyboardStrip:
        """Returns the suggestions for the text before the cursor, each in its place.

        If the word goes on in the text `after` the cursor, a tap replaces the whole word.
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
            ranked = self._with_emoji(typing, ranked)
        slots = [self._slot(typing, *pair, rest.characters, correction) for pair in ranked]
        return KeyboardStrip(
            tuple(slots[rank] if rank < len(slots) else None for rank in SLOT_RANKS),
            time.perf_counter() - start,
            self._slot(typing, correction.form, correction.probability, 0, correction)
            if correction is not None and correction.is_sure
            else None,
        )

    def _typing(self, sentence: str) -> _Typing:
        context, prefix = self.predictor.context_and_prefix(sentence)
        fragment = typing_session.typed_fragment(self.predictor, sentence, prefix)
        run = re.split(r"\s", sentence[: len(sentence) - len(fragment)])[-1]
        return _Typing(context, prefix, fragment, any(mark in run for mark in GLUE), sentence)

    def _ranked(self, typing: _Typing) -> list[Suggestion]:
        """Returns the best words that may be shown, in the form in which they are shown."""
        best: list[Suggestion] = []
        for count in (SLOTS, _CANDIDATES):
            suggestions = self.predictor.suggest(typing.context, typing.prefix, count)
            best = list(self._shown(suggestions))
            if len(best) >= SLOTS or len(suggestions) < count:
                break
        self.withheld += sum(word in self._blocklist for word, _ in suggestions[:SLOTS])
        return self._with_habit(typing, best[:SLOTS])

    def _with_habit(self, typing: _Typing, ranked: list[Suggestion]) -> list[Suggestion]:
        """Puts the word that the user usually types here in the last place, if it is missing."""
        word = self._personal_dictionary.habit(typing.context[-1]) if typing.context else None
        if (
            word is None
            or not word.startswith(typing.prefix)
            or word in self._blocklist
            or word in self._misspelt
            or self._personal_dictionary.is_doubted(word)
        ):
            return ranked
        row = self._ids.get(word, self._personal_dictionary.ids.get(word))
        form = self._form(word)
        if row is None or form in {shown for shown, _ in ranked}:
            return ranked
        probability = float(self.predictor.next_word(typing.context)[row])
        return [*ranked[: SLOTS - 1], (form, probability)]

    def _shown(self, suggestions: list[Suggestion]) -> Iterator[Suggestion]:
        probabilities = dict(suggestions)
        seen = set()
        for word, probability in suggestions:
            meant = self._misspellings.meant_by(word)
            if meant in probabilities:  # it is offered itself, and takes the better place
                word, probability = meant, probabilities[meant]
            elif self._is_misspelt(word):
                continue
            form = self._form(word)
            if (
                word in self._blocklist
                or form in seen
                or self._personal_dictionary.is_doubted(word)
            ):
                continue
            seen.add(form)
            yield form, probability

    def _is_misspelt(self, word: str) -> bool:
        """Returns whether a string is not a word, or is a word of the tail that a slip explains."""
        explained = word not in self._ids and self._misspellings.meant_by(word) is not None
        return (word in self._misspelt or explained) and word not in self._personal_dictionary.ids

    def _filled(
        self, typing: _Typing, ranked: list[Suggestion], correction: _Correction | None
    ) -> list[Suggestion]:
        """Fills empty places of the strip with words one slip away, and with the typed word.

        The typed word is never the best suggestion. If it would be alone, the strip is empty.
        """
        typed, fragment = typing.prefix, typing.fragment
        if len(ranked) >= SLOTS or self._autocorrect is None or len(typed) < _FILLED_FROM:
            return ranked
        as_typed = [] if typed in self._blocklist else [(fragment, 0.0)]
        next_word = self.predictor.next_word(typing.context)
        near = [
            *self._autocorrect.meant(typed, next_word, self._personal_dictionary.ids, SLOTS),
            *self._autocorrect.near(typed, next_word, _CANDIDATES),
        ]
        shown = [
            (self._form(word), p)
            for word, p in near
            if word not in self._blocklist and not self._is_misspelt(word)
        ]
        # A correction that a space would make can be declined beforehand.
        first = as_typed if correction is not None and correction.is_sure else []
        seen = {self._cased(fragment, form) for form, _ in ranked}
        for form, probability in [*first, *shown, *as_typed]:
            cased = self._cased(fragment, form)
            if len(ranked) < SLOTS and cased not in seen and (ranked or cased != fragment):
                seen.add(cased)
                ranked = [*ranked, (form, probability)]
        return ranked

    def _with_emoji(self, typing: _Typing, ranked: list[Suggestion]) -> list[Suggestion]:
        """Puts an emoji in the last place if it goes with the words before the cursor.

        It replaces only a less probable word, and the strip has at most one emoji.
        """
        if self._emoji is None or typing.fragment or not typing.sentence[-1:].isspace():
            return ranked
        emoji = self._emoji.after(typing.context)
        if emoji is None or any(is_emoji(form) for form, _ in ranked):
            return ranked
        if len(ranked) >= SLOTS and ranked[SLOTS - 1][1] >= emoji[1]:
            return ranked
        return [*ranked[: SLOTS - 1], emoji]

    def _correction(self, typing: _Typing) -> _Correction | None:
        """Returns another form or another word for the typed one; None if it is not corrected."""
        typed, fragment = typing.prefix, typing.fragment
        # Capitals inside a word are meant; one in front may come from the shift key.
        if (
            not self._lowercase
            or not typed
            or fragment not in (typed, casing.capitalised(typed, self.code))
        ):
            return None
        if typing.is_attached or self._personal_dictionary.is_exempt(typed):
            return None
        sure = self._truecase.sure_form(typed)
        if sure is not None:
            same = self._cased(fragment, sure) == fragment
            return None if same else _Correction(sure, 1.0, 1.0, is_sure=True)
        if self._autocorrect is None:
            return None
        contraction = (
            self._contraction(typing)
            or self._contraction_before(typing)
            or self._with_apostrophe_moved(typing)
        )
        if contraction is not None:
            return contraction
        spaced = self._joined_with_before(typing) or self._cut(typing)
        if spaced is not None:
            return spaced
        next_word = self.predictor.next_word(typing.context)
        correction = self._autocorrect.correct(
            typed,
            next_word,
            self._personal_dictionary.ids,
            as_typed=self._personal_dictionary.unlearnt(typing.context),
        )
        if correction is not None and self._personal_dictionary.outweighs(typed, correction.word):
            if typed in self._misspelt:
                return None
            correction = self._autocorrect.correct(typed, next_word, self._personal_dictionary.ids)
        if correction is None or correction.word in self._blocklist:
            return None
        form = self._form(correction.word)
        is_name = typing.is_capital_inside and not form[0].isupper()
        # The owner may know both of two names one slip apart.
        is_doubtful = (
            correction.probability < SURE_OF_A_NAME
            or correction.word in self._personal_dictionary.ids
        )
        is_again = typing.context[-1:] == [correction.word]  # "the thr" is not "the the"
        is_sure = correction.is_sure and not (is_name and is_doubtful) and not is_again
        return _Correction(form, correction.probability, correction.score, is_sure)

    def _contraction(self, typing: _Typing) -> _Correction | None:
        """Returns the contraction if the typed word may be one without its apostrophe."""
        meant = self._apostrophes.contraction(typing.prefix)
        if meant is None:
            return None
        probability = self._apostrophes.probability(typing.context, typing.prefix)
        if probability < OFFERED_FROM:
            return None
        is_sure = probability >= apostrophes.SURE_FROM
        score = probability if is_sure else self._chance_of(typing.context, meant)
        return _Correction(self._form(meant), probability, score, is_sure)

    def _with_apostrophe_moved(self, typing: _Typing) -> _Correction | None:
        """Returns the contraction if the typed word has its apostrophe elsewhere: "does'nt"."""
        typed, letters = typing.prefix, typing.prefix.replace("'", "")
        if (
            len(letters) in (0, len(typed))
            or typed.endswith(("'", "'s"))  # a closing quotation mark, or a possessive
            or typed in self._ids
            or (self._autocorrect is not None and self._autocorrect.is_word(typed))
        ):
            return None
        fragment = typing.fragment.replace("'", "")
        contraction = self._correction(
            dataclasses.replace(typing, prefix=letters, fragment=fragment)
        )
        is_contraction = (
            contraction is not None
            and "'" in contraction.form
            and contraction.form.lower() != typed
        )
        return contraction if is_contraction else None

    def _contraction_before(self, typing: _Typing) -> _Correction | None:
        """Returns the contraction that the word before the typed one may be, given both words."""
        word = typing.context[-1] if typing.context else ""
        meant = self._apostrophes.contraction(word)
        written = self._written_before(typing)
        if meant is None or written is None:
            return None
        probability = self._apostrophes.probability(typing.context[:-1], word, typing.prefix)
        if probability < apostrophes.SURE_FROM:
            return None
        form = f"{self._cased(written, self._form(meant))} {typing.fragment}"
        return _Correction(form, probability, probability, is_sure=True, before=len(word) + 1)

    def _written_before(self, typing: _Typing) -> str | None:
        """Returns the word before the typed one, as it was typed, if only a space separates them.

        None if it has a sign in front of it, as in "top-well" and "@ill", or if the user took its
        correction back.
        """
        word = typing.context[-1] if typing.context else ""
        in_front = typing.sentence[: len(typing.sentence) - len(typing.fragment)]
        written = in_front[-len(word) - 1 : -1]
        is_alone = (
            bool(word)
            and in_front.endswith(f"{written} ")
            and written in (word, casing.capitalised(word, self.code))
            and not in_front[: -len(word) - 1][-1:].strip()
            and not self._personal_dictionary.is_exempt(word)
        )
        return written if is_alone else None

    def _joined_with_before(self, typing: _Typing) -> _Correction | None:
        """Returns the word that the last two words form without the space: "to gether".

        One of the two must not be a word, and both together must be a word.
        """
        written, typed, autocorrect = self._written_before(typing), typing.prefix, self._autocorrect
        if written is None or autocorrect is None or len(typed) < _SHORTEST_REJOINED:
            return None
        word, user_words = typing.context[-1], self._personal_dictionary.ids
        joined = word + typed
        is_right = all(autocorrect.is_word(part) or part in user_words for part in (word, typed))
        if is_right or not autocorrect.is_word(joined) or joined in self._blocklist:
            return None
        before = self.predictor.next_word(typing.context[:-1])
        next_word = self.predictor.next_word(typing.context)
        score = _SURPLUS_SPACE * autocorrect.chance(joined, before, user_words)
        apart = autocorrect.chance(word, before, user_words)
        other = apart * autocorrect.weight_of_others(typed, next_word, user_words)
        probability = score / (score + other) if score > 0.0 else 0.0
        if probability < OFFERED_FROM:
            return None
        form = self._cased(written, self._form(joined))
        is_sure = probability >= _JOINED_FROM
        return _Correction(form, probability, probability, is_sure, before=len(word) + 1)

    def _chance_of(self, context: list[str], word: str) -> float:
        return float(self.predictor.next_word(context)[self._ids[word]])

    def _cut(self, typing: _Typing) -> _Correction | None:
        """Returns two words if the typed string is both of them without a space between."""
        typed = typing.prefix
        if typed in self._joined and typed not in self._personal_dictionary.ids:
            return _Correction(self._joined[typed], 1.0, 1.0, not typing.is_capital_inside)
        if (
            self._autocorrect is None
            or self._autocorrect.is_word(typed)
            or typed in self._personal_dictionary.ids
        ):
            return None
        next_word = self.predictor.next_word(typing.context)
        other = self._autocorrect.weight_of_others(typed, next_word, self._personal_dictionary.ids)
        phrase = self._spaces.best(typing.context, typed, _CUT_FROM * other)
        if phrase is None:
            return None
        words, score = phrase
        if any(word in self._blocklist for word in words.split()):
            return None
        probability = score / (score + other)
        if probability < OFFERED_FROM:
            return None
        form = " ".join(self._form(word) for word in words.split())
        is_sure = probability >= _CUT_MADE_FROM and not typing.is_capital_inside
        return _Correction(form, probability, score, is_sure)

    def _cased(self, fragment: str, form: str) -> str:
        return typing_session.in_case_of(fragment, form, self.code)

    def _form(self, word: str) -> str:
        return self._truecase.form(word) if self._lowercase else word

    def _slot(
        self,
        typing: _Typing,
        form: str,
        probability: float,
        taken_after: int,
        correction: _Correction | None = None,
    ) -> Slot:
        before = correction.before if correction is not None and correction.form == form else 0
        shown = form if before else self._cased(typing.fragment, form)
        if self._lowercase and not typing.context and not typing.fragment:
            shown = casing.capitalised(shown, self.code)
        return Slot(
            word=shown,
            probability=probability,
            replaces=before + len(typing.fragment),
            inserts=shown + " ",
            replaces_after=taken_after,
        )


def _names(predictor: Keyboard, code: str) -> list[str]:
    """Returns the words of the tail lexicon that have a capital, with it."""
    facts = predictor.manifest.tail
    if facts is None or facts.capitals is None or predictor.tail is None:
        return []
    names = tail_file.unpacked_capitals(predictor.tail, facts.capitals)
    return [casing.capitalised(name, code) for name in names]
