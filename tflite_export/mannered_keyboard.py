"""The strip as people expect it of a keyboard, made of what the model says.

The model knows lower-case words of one message. Here a sentence begins with a capital and without
the words of the one before, "i" is "I" and "dont" is "don't", a blocked word is never offered, and
a misspelling is not offered beside the word it stands for.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator

from tff_keyboard.metrics.predictor import Suggestion
from tflite_export import sentences, truecase, typing_session
from tflite_export.blocklist import Blocklist, packaged_entries
from tflite_export.misspellings import Misspellings
from tflite_export.runtime import KeyboardPredictor
from tflite_export.typing_session import SLOT_RANKS, SLOTS, Slot, SlottedStrip
from tflite_export.word_frequencies import word_frequencies

_CANDIDATES = 4 * SLOTS  # words looked at where some of the best are not to be shown


@dataclasses.dataclass(frozen=True)
class _Typing:
    """What is being typed: the sentence's words, and the word at the cursor."""

    context: list[str]
    prefix: str  # normalised
    fragment: str  # as typed


class MannerlyKeyboard:
    """A model with manners. Not thread-safe, like the model.

    Args:
      predictor: The model.
      language: Of the packaged blocklist and the built-in forms: "en", or "none" for neither.
      blocked: More entries for the blocklist.

    Attributes:
      predictor: As given.
      withheld: Blocked words that the strips so far would have shown otherwise.

    Raises:
      ExportError: The `truecase` entry of the manifest is broken.
    """

    def __init__(
        self, predictor: KeyboardPredictor, language: str = "en", blocked: Iterable[str] = ()
    ):
        self.predictor = predictor
        self.withheld = 0
        self._blocklist = Blocklist([*packaged_entries(language), *blocked])
        self._truecase = truecase.Truecase(language, truecase.forms_of(predictor.manifest))
        # A model of cased text has its own capitals.
        self._lowercase = predictor.vocabulary.rules.lowercase
        self._misspellings = Misspellings(word_frequencies(predictor))

    def strip_for(self, text: str, after: str = "") -> SlottedStrip:
        """Suggestions for the text before the cursor, each in its place.

        Args:
          text: Before the cursor.
          after: Behind the cursor; where that goes on with the word, a tap replaces all of it.
        """
        start = time.perf_counter()
        typing = self._typing(sentences.sentence_of(text))
        rest = typing_session.rest_of_word(self.predictor, typing.fragment, after)
        correction = None if rest.letters else self._correction(typing)
        ranked = self._ranked(typing)
        if correction is not None:
            ranked = [correction, *(s for s in ranked if s[0] != correction[0])]
        slots = [self._slot(typing, *suggestion, rest.characters) for suggestion in ranked[:SLOTS]]
        return SlottedStrip(
            tuple(slots[rank] if rank < len(slots) else None for rank in SLOT_RANKS),
            time.perf_counter() - start,
            self._slot(typing, *correction, 0) if correction is not None else None,
        )

    def _typing(self, sentence: str) -> _Typing:
        context, prefix = self.predictor.context_and_prefix(sentence)
        fragment = typing_session.typed_fragment(self.predictor, sentence, prefix)
        return _Typing(context, prefix, fragment)

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
            form = self._form(word)
            if word in self._blocklist or form in seen:
                continue
            seen.add(form)
            yield form, probability

    def _correction(self, typing: _Typing) -> Suggestion | None:
        """What the typed word becomes with a space behind it; None where it stays."""
        if not self._lowercase or typing.fragment != typing.prefix:  # has a capital of its own
            return None
        form = self._truecase.sure_form(typing.prefix)
        return None if form is None else (form, self._probability(typing.context, form.lower()))

    def _probability(self, context: list[str], word: str) -> float:
        found = self.predictor.suggest(context, word, 1)
        return found[0][1] if found and found[0][0] == word else 0.0

    def _form(self, word: str) -> str:
        return self._truecase.form(word) if self._lowercase else word

    def _slot(self, typing: _Typing, form: str, probability: float, taken_after: int) -> Slot:
        shown = typing_session.in_case_of(typing.fragment, form)
        if self._lowercase and not typing.context and not typing.fragment:
            shown = shown[:1].upper() + shown[1:]
        return Slot(
            word=shown,
            probability=probability,
            replaces=len(typing.fragment),
            inserts=shown + " ",
            replaces_after=taken_after,
        )
