"""A model that has been opened, with what a table says about it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.data.vocabulary import NUM_SPECIAL, NormalisationRules, Vocabulary
from tff_keyboard.evaluation.results.result import ModelFacts
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True)
class NamedPredictor:
    """A model and its name."""

    name: str
    kind: str  # "keras", "ngram", "tflite", "hybrid" or "aosp"
    predictor: Predictor
    details: Mapping[str, Any]  # what else is worth keeping: order of an n-gram, bytes of a file
    source: str  # the model's name as the person wrote it

    @property
    def facts(self) -> ModelFacts:
        """What an evaluation keeps of it."""
        return ModelFacts(name=self.name, kind=self.kind, source=self.source, details=self.details)


def common_rules(models: Sequence[NamedPredictor]) -> NormalisationRules:
    """The rules by which all of them, one at least, cut text into words.

    Raises `UsageError` if they have different ones.
    """
    rules = models[0].predictor.vocabulary.rules
    for other in models[1:]:
        if other.predictor.vocabulary.rules != rules:
            raise UsageError(
                f"'{other.name}' cuts text into words by other rules than '{models[0].name}': they "
                "cannot be compared on the same words."
            )
    return rules


def vocabulary_by_frequency(models: Sequence[NamedPredictor]) -> Vocabulary | None:
    """The first whose ids are ordered by frequency: an exported file sorts its words by letters."""
    for model in models:
        vocabulary = model.predictor.vocabulary
        if list(words := vocabulary.words[NUM_SPECIAL:]) != sorted(words):
            return vocabulary
    return None
