"""Turns the suggestions of a model into the strip of a keyboard, and corrects words.

The model knows lower-case words of one message. The strip adds these rules:

- A sentence begins with a capital. The words of the sentence before it do not count.
- "i" is shown as "I", and "dont" as "don't". A blocked word is never offered.
- A misspelling is not offered next to the word that it stands for. A word of the tail lexicon that
  looks like a misspelling of a common word is never offered.
- A space corrects a word if the correction is nearly certain: "alot" becomes two words
  (`missing_spaces.py`), and "ill" becomes "I'll" if the words around it suggest it, also after the
  next word is typed. So do other right words in the wrong place: "better then me"
  (`confused_words.py`), and words that are others without marks: "el sabe".
- A word in capitals is corrected, in capitals, if no word before it has a small letter. Others are
  acronyms.
- A word with a capital inside a sentence is taken for a name. It is corrected only to a word with a
  capital, or to a word that is nearly certain. A word attached to one of `GLUE` is not corrected.
- The user's own words, which a `HybridKeyboardPredictor` has, obey the same rules. They are shown
  with the capitals with which the user writes them. A new word that looks like a slip becomes an
  own word only after several uses (`personal_dictionary.py`). If the user took back the correction
  of a word, it is not corrected again.
- After three letters, empty places are filled with words one slip away, and then with the typed
  word.
"""

import dataclasses
import pathlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tff_keyboard.data.text import casing
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.locking import Lock, locked
from tff_keyboard.predictors.predictor import Suggestion
from tff_keyboard_app.keyboard import confused_words, sentences, truecase, typing_session
from tff_keyboard_app.keyboard.autocorrect import OFFERED_FROM, Autocorrect, frequencies_of
from tff_keyboard_app.keyboard.blocklist import Blocklist, packaged_entries
from tff_keyboard_app.keyboard.confused_words import ConfusedWords
from tff_keyboard_app.keyboard.dictionary_files import Entry
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
from tff_keyboard_app.keyboard.touches import Touch, Touches, checked
from tff_keyboard_app.keyboard.typing_session import SLOTS, KeyboardStrip, Slot
from tff_keyboard_app.keyboard.user_dictionary import UserDictionary
from tff_keyboard_app.keyboard.word_frequencies import word_frequencies
from tflite_export.format import tail_file
from tflite_export.runtime.hybrid_keyboard import Keyboard, open_keyboard

_CANDIDATES = 4 * SLOTS  # words looked at where some of the best are not to be shown
GLUE = "@#\\_/:"  # of addresses, tags, names of files and of people
# Two words in one string, of which the second begins with a capital or stands after a full stop.
_CAPITAL_INSIDE = re.compile(
    r"(?P<first>[^\W\d_][a-zß-ÿ]+)(?P<second>I|(?:I'|[A-ZÀ-Þ][a-zß-ÿ])[a-zß-ÿ]*(?:'[a-z]+)?)"
)
_STOP_INSIDE = re.compile(r"(?P<first>[^\W\d_]+)\.(?P<second>[^\W\d_]+)")
# Ends of addresses and of names of files.
_AFTER_A_DOT = frozenset((
    "co", "com", "de", "doc", "edu", "es", "exe", "gov", "html", "info", "io", "it", "js", "me",
    "ms", "net", "nl", "org", "pdf", "pt", "py", "tr", "tv", "txt", "uk", "us", "zip",
))  # fmt: skip
SURE_OF_A_NAME = 0.999  # probability from which on a word with a capital becomes one without
_CUT_MADE_FROM = 0.98  # probability; "hostname" and "ifconfig" stay whole
_SURPLUS_SPACE = 0.001  # chance of one inside a word
_JOINED_FROM = 0.9  # probability from which on a surplus space is taken away
_SHORTEST_REJOINED = 2  # letters after the space
_CUT_FROM = 0.25  # of the weight of what else the typed word may be
_SURE_IN_CAPITALS = 0.95  # probability from which on a word in capitals is corrected
_MARKED_FROM = 0.01  # of the best completion's probability
_CONFUSED_FROM = 0.05  # probability from which on a confused word gets a place on the strip
_CONFUSED_BEFORE_FROM = 0.2  # the same, for the word before the typed one
_SHORTEST_FOLLOWING = 3  # letters of a word directly after the cursor that stays as it is
_FILLED_FROM = 3  # letters; before that the best words are too far from the intended one
_FILLED_SCORE = 1e-6  # of what fills empty places, so that it stands behind every other word


@dataclasses.dataclass(frozen=True)
class _Typing:
    """The text of a sentence up to the cursor: its words, and the word at the cursor."""

    context: list[str]
    prefix: str  # normalised
    fragment: str  # as typed
    is_attached: bool  # whether one of `GLUE` stands in front, without white space between
    sentence: str  # up to the cursor, as typed
    touches: Touches | None = None  # of `prefix`

    @property
    def before(self) -> str:
        """Returns the sentence before the word at the cursor, as typed."""
        return self.sentence[: len(self.sentence) - len(self.fragment)]

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
    adds_marks: bool = False  # whether it is the typed word with marks
    is_confused: bool = False  # whether the typed word is often typed for it
    before: int = 0  # characters before the typed word that it replaces, too

    def among(self, ranked: list[Suggestion]) -> list[Suggestion]:
        """Inserts the correction into the suggestions.

        A sure one always gets a place. So do confused words, and missing marks unless the letters
        typed so far rather begin another word: "pue" is "puede", and not "pué".
        """
        other_suggestions = [suggestion for suggestion in ranked if suggestion[0] != self.form]
        slot = sum(probability > self.score for _, probability in other_suggestions)
        best = max((probability for _, probability in other_suggestions), default=0.0)
        is_due = self.is_confused or (self.adds_marks and self.score >= _MARKED_FROM * best)
        if self.is_sure or is_due:
            slot = min(slot, SLOTS - 1)
        return [
            *other_suggestions[:slot],
            (self.form, self.probability),
            *other_suggestions[slot:],
        ][:SLOTS]


@dataclasses.dataclass(frozen=True)
class ScoredStrip:
    """The suggestions of a keyboard, the best first, each with its score.

    The score is P(word | context), for a correction times P(typed | word). So the scores of two
    keyboards can be compared (`multilingual.py`).
    """

    ranked: tuple[tuple[Slot, float], ...]
    correction: Slot | None  # see `KeyboardStrip`


class AppKeyboard:
    """A model with the rules of a keyboard. Several threads may use it, like the model.

    Args:
      predictor: The model.
      language: Language of the packaged blocklist, the keys and the built-in forms. Default: the
        language of the vocabulary. "none" has no blocklist, no forms and no corrections.
      blocked: Further words of the blocklist.
      emoji: Whether emoji are offered after matching words.
      dictionary: Entries of the user's personal dictionary (`dictionary_files.read`). They are
        offered even if the blocklist has them.

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
        dictionary: Iterable[Entry] = (),
    ):
        self.predictor = predictor
        self.code = predictor.vocabulary.rules.language
        language_code = language or self.code
        self.language = LANGUAGES.get(language_code, LANGUAGES[self.code])
        self.withheld = 0
        self._blocklist = Blocklist([*packaged_entries(language_code), *blocked])
        self._dictionary = UserDictionary(dictionary, predictor, language_code)
        names = [*_names(predictor, self.code), *predictor.manifest.truecase]
        self._truecase = truecase.Truecase(
            self.code,
            [*names, *self._dictionary.forms],
            built_in=language_code == self.code,
        )
        # A model of cased text has its own capitals.
        self._lowercase = predictor.vocabulary.rules.lowercase
        frequencies = word_frequencies(predictor.network)
        self._joined = JOINED.get(language_code, {})
        misspelt = packaged_misspellings(language_code) | self._joined.keys()
        self._misspelt = misspelt - self._dictionary.words.keys()
        tail = self._dictionary.with_words(predictor.tail)
        self._autocorrect = (
            Autocorrect(
                predictor.vocabulary,
                frequencies,
                tail,
                self.language,
                self._misspelt | self._truecase.without_apostrophe,
                packaged_slang(language_code),
                packaged_slips(language_code),
            )
            if self._lowercase and language_code != "none"
            else None
        )
        self._frequencies = (
            self._autocorrect.frequencies
            if self._autocorrect is not None
            else {**frequencies, **frequencies_of(tail)}
        )
        self._misspellings = Misspellings(self._frequencies, self.language)
        self._emoji = EmojiWords(language_code) if emoji else None
        self._personal_dictionary = PersonalDictionary(predictor, self._autocorrect, self._form)
        self._ids = {
            word: i
            for i, word in enumerate(predictor.vocabulary.words)
            if i > OOV and word not in self._misspelt
        }
        self._confused = (
            ConfusedWords(
                predictor,
                language_code if language_code == self.code else "",
                self._autocorrect.is_word,
                self._autocorrect.chance,
                self._autocorrect.one_slip_away,
            )
            if self._autocorrect is not None
            else None
        )
        self._spaces = MissingSpaces(
            predictor, self._frequencies, self._ids, self.language.keys[-1]
        )

    @classmethod
    def open(
        cls,
        path: pathlib.Path | str,
        language: str | None = None,
        blocked: Iterable[str] = (),
        *,
        emoji: bool = True,
        dictionary: Iterable[Entry] = (),
    ) -> "AppKeyboard":
        """Opens the keyboard on an exported model.

        It does not learn from what it suggests. `UserHistory` learns messages that were sent.

        Args:
          path: `.tflite` file of `tff-keyboard export`. If its n-gram and list of words lie next to
            it, they are used.
          language: As in the class.
          blocked: As in the class.
          emoji: As in the class.
          dictionary: As in the class.

        Raises:
          ExportError: If a file is missing, damaged or does not belong to the others.
        """
        return cls(open_keyboard(path), language, blocked, emoji=emoji, dictionary=dictionary)

    @property
    def lock(self) -> Lock:
        """The lock of the model. A strip holds it, so that no other thread changes the words."""
        return self.predictor.lock

    @property
    def held(self) -> Mapping[str, str]:
        """Letter of a key -> letters that the page offers while the key is held down."""
        return self.language.held

    @property
    def predictors(self) -> tuple[Keyboard, ...]:
        """The model, as `MultilingualKeyboard.predictors` has several."""
        return (self.predictor,)

    @locked
    def offers(self, word: str) -> bool:
        """Returns whether a word that is not in the vocabulary may be on the strip, in any form."""
        if self._lowercase:
            word = casing.lower(word, self.code)
        return word in self._dictionary or (
            word in self._personal_dictionary.ids and word not in self._blocklist
        )

    @locked
    def keyboard_strip(
        self, text: str, after: str = "", touches: Sequence[Touch | None] | None = None
    ) -> KeyboardStrip:
        """Returns the suggestions for the text before the cursor, each in its place.

        If the word goes on in the text `after` the cursor, a tap replaces the whole word. If the
        letters after the cursor are a word, and no word together with those before it ("hel" and
        "there"), they stay.

        Args:
          text: The text before the cursor.
          after: The text after it.
          touches: Where each character after the last white space of `text` was touched, as in
            `touches.py`; None for a character without a touch. Corrections use them. Without them,
            they know only which keys are neighbours.

        Raises:
          ValueError: If there are not as many touches as these characters, or one is not two finite
            numbers.
        """
        start = time.perf_counter()
        scored = self.scored_strip(text, after, touches)
        slots = [slot for slot, _ in scored.ranked]
        return typing_session.placed(slots, scored.correction, time.perf_counter() - start)

    @locked
    def scored_strip(
        self, text: str, after: str = "", touches: Sequence[Touch | None] | None = None
    ) -> ScoredStrip:
        """Returns the suggestions of `keyboard_strip`, with their scores."""
        typing = self._typing(sentences.sentence_of(text))
        if touches is not None:
            touches_of_text = checked(touches, text)
            touches_of_word = touches_of_text[len(touches_of_text) - len(typing.fragment) :]
            # Normalising may change the number of letters.
            if len(touches_of_word) == len(typing.prefix):
                touches_of_prefix = Touches(typing.prefix, touches_of_word)
                typing = dataclasses.replace(typing, touches=touches_of_prefix)
        rest_of_word = typing_session.rest_of_word(self.predictor, typing.fragment, after)
        is_inside = rest_of_word.letters > 0
        if is_inside and self._stands_alone(typing.prefix, after[: rest_of_word.letters]):
            rest_of_word = typing_session.RestOfWord(0, 0)
        correction = None if is_inside else self._correction(typing)
        ranked = self._with_shortcut(typing, self._ranked(typing))
        if correction is not None:
            ranked = correction.among(ranked)
        filled_from = len(ranked)
        if not is_inside:
            ranked = self._with_fillers(typing, ranked, correction)
            ranked = self._with_emoji(typing, ranked)
        scored: list[tuple[Slot, float]] = []
        for rank, (form, probability) in enumerate(ranked):
            is_correction = correction is not None and form == correction.form
            score = correction.score if correction and is_correction else probability
            is_filled = rank >= filled_from and not is_emoji(form)
            slot = self._slot(typing, form, probability, rest_of_word.characters, correction)
            scored.append((slot, _FILLED_SCORE * score if is_filled else score))
        return ScoredStrip(
            tuple(scored),
            self._slot(typing, correction.form, correction.probability, 0, correction)
            if correction is not None and correction.is_sure
            else None,
        )

    def frequency(self, word: str) -> float:
        """Returns the probability of a word in small letters without context.

        It is 0 for a word that is neither in the vocabulary nor in the tail lexicon.
        """
        return self._frequencies.get(word, 0.0)

    def is_common(self, word: str) -> bool:
        """Returns whether a word in small letters is in the vocabulary, and is no misspelling."""
        return word in self._ids

    def _stands_alone(self, typed: str, following: str) -> bool:
        """Returns whether the letters after the cursor are a word, and not the rest of one."""
        word = casing.lower(following, self.code) if self._lowercase else following
        joined = typed + word
        is_known = (
            joined in self._ids
            or joined in self._misspelt
            or joined in self._personal_dictionary.ids
            or (self._autocorrect is not None and self._autocorrect.is_word(joined))
        )
        return len(word) >= _SHORTEST_FOLLOWING and word in self._ids and not is_known

    def _typing(self, sentence: str) -> _Typing:
        """Divides a sentence into the words before the cursor and the word at it."""
        context, prefix = self.predictor.context_and_prefix(sentence)
        fragment = typing_session.typed_fragment(self.predictor, sentence, prefix)
        run = re.split(r"\s", sentence[: len(sentence) - len(fragment)])[-1]
        return _Typing(context, prefix, fragment, any(mark in run for mark in GLUE), sentence)

    def _ranked(self, typing: _Typing) -> list[Suggestion]:
        """Returns the best words that may be shown, in the form in which they are shown."""
        best: list[Suggestion] = []
        for count in (SLOTS, _CANDIDATES):
            suggestions = self._suggestions(typing, count)
            best = list(self._displayed_forms(suggestions))
            if len(best) >= SLOTS or len(suggestions) < count:
                break
        self.withheld += sum(word in self._blocklist for word, _ in suggestions[:SLOTS])
        return self._with_habit(typing, best[:SLOTS])

    def _suggestions(self, typing: _Typing, count: int) -> list[Suggestion]:
        """Returns the best words that the typed letters may begin, also without their marks."""
        suggestions = self.predictor.suggest(typing.context, typing.prefix, count)
        if not typing.prefix or (self._autocorrect is None and not self._dictionary.words):
            return suggestions
        next_word = self.predictor.next_word(typing.context)
        listed = dict(self._dictionary.completions(typing.prefix, float(next_word[OOV])))
        unlisted = [(word, p) for word, p in suggestions if word not in listed]
        ranked = [(word, p, p) for word, p in [*unlisted, *listed.items()]]  # the last by rank
        if self._autocorrect is not None:
            ranked += self._autocorrect.completions(typing.prefix, next_word, count)
        ranked.sort(key=lambda suggestion: -suggestion[2])  # stable
        return [(word, probability) for word, probability, _ in ranked[:count]]

    def _with_shortcut(self, typing: _Typing, ranked: list[Suggestion]) -> list[Suggestion]:
        """Puts the text first that stands for the typed shortcut of the user's dictionary."""
        text = self._dictionary.shortcuts.get(typing.prefix)
        if text is None:
            return ranked
        return [(text, 1.0), *(one for one in ranked if one[0] != text)][:SLOTS]

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
        if row is None or form in {other_form for other_form, _ in ranked}:
            return ranked
        probability = float(self.predictor.next_word(typing.context)[row])
        return [*ranked[: SLOTS - 1], (form, probability)]

    def _displayed_forms(self, suggestions: list[Suggestion]) -> Iterator[Suggestion]:
        """Yields the suggestions in the forms in which they are shown, each form once.

        A listed misspelling becomes the word that was meant. Blocked and doubted words are left
        out.
        """
        probabilities = dict(suggestions)
        seen = set()
        for word, probability in suggestions:
            is_listed = word in self._dictionary.words
            meant = None if is_listed else self._misspellings.meant_by(word)
            if meant in probabilities:  # it is offered itself, and takes the better place
                word, probability = meant, probabilities[meant]
            elif self._is_misspelt(word):
                continue
            form = self._form(word)
            is_refused = word in self._blocklist or self._personal_dictionary.is_doubted(word)
            if form in seen or (is_refused and not is_listed):
                continue
            seen.add(form)
            yield form, probability

    def _is_misspelt(self, word: str) -> bool:
        """Returns whether a string is not a word, or is a word of the tail that a slip explains."""
        explained = word not in self._ids and self._misspellings.meant_by(word) is not None
        is_own = word in self._personal_dictionary.ids or word in self._dictionary.words
        return (word in self._misspelt or explained) and not is_own

    def _with_fillers(
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
            *self._autocorrect.meant(
                typed, next_word, self._personal_dictionary.targets, SLOTS, typing.touches
            ),
            *self._autocorrect.near(typed, next_word, _CANDIDATES),
        ]
        near_forms = [
            (self._form(word), p)
            for word, p in near
            if word not in self._blocklist and not self._is_misspelt(word)
        ]
        # A correction that a space would make can be declined beforehand.
        first = as_typed if correction is not None and correction.is_sure else []
        seen = {self._in_case_of(fragment, form) for form, _ in ranked}
        for form, probability in [*first, *near_forms, *as_typed]:
            cased = self._in_case_of(fragment, form)
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
        correction = self._correction_of_word(typing)
        before = (
            self._confused_before(typing, correction)
            or self._marks_before(typing, correction)
            or self._stop_for_space(typing)
        )
        if before is None or (correction is not None and not before.is_sure):
            return correction
        return before

    def _correction_of_word(self, typing: _Typing) -> _Correction | None:
        """Returns the correction that the words before the typed one suggest."""
        typed, fragment = typing.prefix, typing.fragment
        # Capitals inside a word are meant; one in front may come from the shift key.
        if not self._lowercase or not typed:
            return None
        is_cased = fragment in (typed, casing.capitalised(typed, self.code))
        if not is_cased and not self._is_in_capitals(typing):
            return self._cut_at_capital(typing)
        if typing.is_attached or self._personal_dictionary.is_exempt(typed):
            return None
        if typed in self._dictionary:
            return None
        sure = self._truecase.sure_form(typed)
        if sure is not None:
            same = self._in_case_of(fragment, sure) == fragment
            return None if same else _Correction(sure, 1.0, 1.0, is_sure=True)
        if self._autocorrect is None:
            return None
        confused = self._confused_with(typing)
        if confused is not None and (confused.is_sure or not confused.is_confused):
            return confused
        contraction = self._with_apostrophe_moved(typing)
        if contraction is not None:
            return contraction
        spaced = self._joined_with_before(typing) or self._cut(typing)
        if spaced is not None:
            return spaced
        next_word = self.predictor.next_word(typing.context)
        correction = self._autocorrect.correct(
            typed,
            next_word,
            self._personal_dictionary.targets,
            as_typed=self._personal_dictionary.unlearnt(typing.context),
            touches=typing.touches,
        )
        if correction is not None and self._personal_dictionary.outweighs(typed, correction.word):
            if typed in self._misspelt:
                return None
            correction = self._autocorrect.correct(
                typed, next_word, self._personal_dictionary.targets, touches=typing.touches
            )
        if correction is None or correction.word in self._blocklist:
            return confused
        form = self._form(correction.word)
        # The owner may know both of two names one slip apart.
        is_own = correction.word in self._personal_dictionary.ids
        is_likely = correction.probability >= SURE_OF_A_NAME or form[0].isupper()
        is_doubtful = typing.is_capital_inside and (is_own or not is_likely)
        is_again = typing.context[-1:] == [correction.word]  # "the thr" is not "the the"
        if not is_cased:  # words in capitals may be acronyms
            is_doubtful = correction.probability < _SURE_IN_CAPITALS
        is_sure = correction.is_sure and not is_doubtful and not is_again
        if confused is not None and not is_sure and confused.probability > correction.probability:
            return confused
        return _Correction(
            form, correction.probability, correction.score, is_sure, correction.adds_marks
        )

    def _is_in_capitals(self, typing: _Typing) -> bool:
        """Returns whether the word is in capitals, as all words before it in the sentence."""
        return typing.fragment == casing.upper(typing.prefix, self.code) and not any(
            letter.islower() for letter in typing.before
        )

    def _confused_with(self, typing: _Typing) -> _Correction | None:
        """Returns the word that was probably meant instead of the typed one, also a contraction."""
        if self._confused is None or typing.is_capital_inside:
            return None
        confusion = self._confused.best(typing.context, typing.prefix)
        if confusion is None or self._is_blocked(confusion.meant):
            return None
        is_contraction = confusion.meant == self._confused.contraction(typing.prefix)
        if confusion.probability < (OFFERED_FROM if is_contraction else _CONFUSED_FROM):
            return None
        score = confusion.probability if confusion.is_sure else confusion.chance
        return _Correction(
            self._forms(confusion.meant),
            confusion.probability,
            score,
            confusion.is_sure,
            is_confused=not is_contraction,
        )

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
        touches = typing.touches.without("'") if typing.touches is not None else None
        contraction = self._correction_of_word(
            dataclasses.replace(typing, prefix=letters, fragment=fragment, touches=touches)
        )
        is_contraction = (
            contraction is not None
            and "'" in contraction.form
            and contraction.form.lower() != typed
        )
        return contraction if is_contraction else None

    def _confused_before(
        self, typing: _Typing, correction: _Correction | None
    ) -> _Correction | None:
        """Returns a correction of the words before the typed one that also keeps the typed one.

        The typed word is known, so it can show that the word before it was confused with another.
        Either may be two words. If a space would correct the typed word, both change: "your goign"
        becomes "you're going".
        """
        if self._confused is None or (correction is not None and correction.before):
            return None
        fragment, following = self._corrected(typing, correction)
        for count in range(1, min(confused_words.LONGEST, len(typing.context)) + 1):
            words = typing.context[-count:]
            typed = " ".join(words)
            written = self._written_before(typing, count)
            if written is None:
                continue
            confusion = self._confused.best(typing.context[:-count], typed, following)
            if (
                confusion is None
                or (confusion.is_slip and not confusion.is_sure)
                or not (confusion.is_sure or confusion.probability >= _CONFUSED_BEFORE_FROM)
                or self._is_blocked(confusion.meant)
            ):
                continue
            form = f"{self._in_place_of(written, typed, confusion.meant)} {fragment}"
            return _Correction(
                form,
                confusion.probability,
                confusion.probability,
                confusion.is_sure,
                is_confused=True,
                before=len(written) + 1,
            )
        return None

    def _corrected(self, typing: _Typing, correction: _Correction | None) -> tuple[str, str]:
        """Returns the typed word as a space leaves it: as it is written, and in small letters."""
        if correction is None or not correction.is_sure:
            return typing.fragment, typing.prefix
        fragment = self._in_case_of(typing.fragment, correction.form)
        return fragment, casing.lower(correction.form, self.code)

    def _in_place_of(self, written: str, typed: str, meant: str) -> str:
        """Returns a word in the place of another one, with its capital if the sentence begins."""
        is_own_capital = written[:1].isupper() and self._forms(typed)[:1].isupper()
        form = self._forms(meant)
        return form if is_own_capital else self._in_case_of(written, form)

    def _forms(self, words: str) -> str:
        return " ".join(map(self._form, words.split()))

    def _is_blocked(self, words: str) -> bool:
        return any(word in self._blocklist for word in words.split())

    def _marks_before(self, typing: _Typing, correction: _Correction | None) -> _Correction | None:
        """Returns the word before the typed one with its marks, given both, and the typed word.

        If a space corrects the typed word, both are corrected: "el esta" becomes "él está".
        """
        word = typing.context[-1] if typing.context else ""
        user_words = self._personal_dictionary.targets
        if (
            self._autocorrect is None
            or not self._autocorrect.lacks_marks(word, user_words)
            or not self._autocorrect.is_word(word)
        ):
            return None
        written = self._written_before(typing)
        if written is None or (correction is not None and correction.before):
            return None
        fragment, following = self._corrected(typing, correction)
        row = self._ids.get(following)
        if row is None:
            return None
        context = typing.context[:-1]
        next_word = self.predictor.next_word(context)
        alone = self._autocorrect.with_marks(word, next_word, user_words)
        if alone is None or alone.is_sure:  # the user took the correction of its own space back
            return None
        marked = self._autocorrect.with_marks(
            word,
            next_word,
            user_words,
            following=lambda other: float(self.predictor.next_word([*context, other])[row]),
        )
        if marked is None or not marked.is_sure or marked.word in self._blocklist:
            return None
        form = f"{self._in_case_of(written, self._form(marked.word))} {fragment}"
        return _Correction(
            form, marked.probability, marked.probability, is_sure=True, before=len(word) + 1
        )

    def _written_before(self, typing: _Typing, count: int = 1) -> str | None:
        """Returns the words before the typed one, as they were typed, if only spaces separate them.

        None if they have a sign in front of them, as in "top-well" and "@ill", or if the user took
        the correction of one of them back.
        """
        words = typing.context[-count:]
        typed = " ".join(words)
        in_front = typing.before
        written = in_front[-len(typed) - 1 : -1]
        is_alone = (
            bool(typed)
            and in_front.endswith(f"{written} ")
            and written in (typed, casing.capitalised(typed, self.code))
            and not in_front[: -len(typed) - 1][-1:].strip()
            and not any(map(self._personal_dictionary.is_exempt, words))
        )
        return written if is_alone else None

    def _joined_with_before(self, typing: _Typing) -> _Correction | None:
        """Returns the word that the last two words form without the space: "to gether".

        One of the two must not be a word, and both together must be a word.
        """
        written, typed, autocorrect = self._written_before(typing), typing.prefix, self._autocorrect
        if written is None or autocorrect is None or len(typed) < _SHORTEST_REJOINED:
            return None
        word, user_words = typing.context[-1], self._personal_dictionary.targets
        joined = word + typed
        user_ids = self._personal_dictionary.ids
        is_right = all(autocorrect.is_word(part) or part in user_ids for part in (word, typed))
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
        form = self._in_case_of(written, self._form(joined))
        is_sure = probability >= _JOINED_FROM
        return _Correction(form, probability, probability, is_sure, before=len(word) + 1)

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
        other = self._autocorrect.weight_of_others(
            typed, next_word, self._personal_dictionary.targets, typing.touches
        )
        touched = self._autocorrect.keys_touched(typing.touches)
        phrase = self._spaces.best(typing.context, typed, _CUT_FROM * other, touched)
        if phrase is None:
            return None
        words, score = phrase
        if self._is_blocked(words):
            return None
        probability = score / (score + other)
        if probability < OFFERED_FROM:
            return None
        form = self._forms(words)
        is_sure = probability >= _CUT_MADE_FROM and not typing.is_capital_inside
        return _Correction(form, probability, score, is_sure)

    def _cut_at_capital(self, typing: _Typing) -> _Correction | None:
        """Returns two words typed as one, if the second has its capital: "rightI've"."""
        parts = _CAPITAL_INSIDE.fullmatch(typing.fragment)
        if parts is None or typing.is_attached or self._autocorrect is None:
            return None
        words = casing.lower(parts["first"], self.code), casing.lower(parts["second"], self.code)
        is_right = (
            self._spaces.is_word(words[0])
            and self._form(words[1]) == parts["second"]
            and not any(map(self._personal_dictionary.is_exempt, (typing.prefix, *words)))
            and typing.prefix not in self._personal_dictionary.ids
        )
        if not is_right or self._is_blocked(" ".join(words)):
            return None
        return _Correction(f"{parts['first']} {parts['second']}", 1.0, 1.0, is_sure=True)

    def _stop_for_space(self, typing: _Typing) -> _Correction | None:
        """Returns two words between which a full stop was hit for the space bar: "the.winner"."""
        run = re.split(r"\s", typing.sentence)[-1]
        parts = _STOP_INSIDE.fullmatch(run)
        if parts is None or self._autocorrect is None or not self._lowercase:
            return None
        words = casing.lower(parts["first"], self.code), parts["second"]
        if (
            words[1] in _AFTER_A_DOT
            or not all(map(self._spaces.is_word, words))
            or any(map(self._personal_dictionary.is_exempt, (*words, run)))
            or self._is_blocked(" ".join(words))
        ):
            return None
        context, _ = self.predictor.context_and_prefix(typing.sentence[: -len(run)])
        probability = self._spaces.probability_of_space(context, words)
        if probability < OFFERED_FROM:
            return None
        form = f"{parts['first']} {self._in_case_of(words[1], self._form(words[1]))}"
        return _Correction(
            form,
            probability,
            probability,
            probability >= _CUT_MADE_FROM,
            is_confused=True,
            before=len(parts["first"]) + 1,
        )

    def _in_case_of(self, fragment: str, form: str) -> str:
        return typing_session.in_case_of(fragment, form, self.code)

    def _form(self, word: str) -> str:
        if not self._lowercase:
            return word
        return self._personal_dictionary.written(word) or self._truecase.form(word)

    def _slot(
        self,
        typing: _Typing,
        form: str,
        probability: float,
        taken_after: int,
        correction: _Correction | None = None,
    ) -> Slot:
        """Returns a suggestion with the characters that it replaces and inserts.

        `taken_after` is the number of characters after the cursor that it replaces.
        """
        before = correction.before if correction is not None and correction.form == form else 0
        cased_form = form if before else self._in_case_of(typing.fragment, form)
        if self._lowercase and not typing.context and not typing.fragment:
            cased_form = casing.capitalised(cased_form, self.code)
        return Slot(
            word=cased_form,
            probability=probability,
            replaces=before + len(typing.fragment),
            inserts=cased_form + " ",
            replaces_after=taken_after,
        )


def _names(predictor: Keyboard, code: str) -> list[str]:
    """Returns the words of the tail lexicon that have a capital, with it."""
    facts = predictor.manifest.tail
    if facts is None or facts.capitals is None or predictor.tail is None:
        return []
    names = tail_file.unpacked_capitals(predictor.tail, facts.capitals)
    return [casing.capitalised(name, code) for name in names]
