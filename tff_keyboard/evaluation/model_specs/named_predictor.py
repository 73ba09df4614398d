"""An opened model with its facts for tables."""

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
    details: Mapping[str, Any]  # other facts: order of an n-gram, bytes of a file
    source: str  # the model's name on the command line

    @property
    def facts(self) -> ModelFacts:
        """The facts about the model in an evaluation."""
        return ModelFacts(name=self.name, kind=self.kind, source=self.source, details=self.details)


def common_rules(models: Sequence[NamedPredictor]) -> NormalisationRules:
    """Returns the normalisation rules of all models, at least one.

    Raises `UsageError` if they have different rules.
    """
    rules = models[0].predictor.vocabulary.rules
    for other in models[1:]:
        if other.predictor.vocabulary.rules != rules:
            raise UsageError(
                f"'{other.name}' has different tokenisation rules than '{models[0].name}', so they "
                "cannot be compared on the same words."
            )
    return rules


def vocabulary_by_frequency(models: Sequence[NamedPredictor]) -> Vocabulary | None:
    """Returns the first vocabulary with ids ordered by frequency, or None.

    An exported file sorts its words alphabetically.
    """
    for model in models:
        vocabulary = model.predictor.vocabulary
        if list(words := vocabulary.words[NUM_SPECIAL:]) != sorted(words):
            return vocabulary
    return None
