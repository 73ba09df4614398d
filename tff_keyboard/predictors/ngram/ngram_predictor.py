"""An n-gram as a `Predictor`."""

import functools
from collections.abc import Iterable, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import PAD, Vocabulary
from tff_keyboard.predictors.ngram.compact_ngram import CompactNGram
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey
from tff_keyboard.predictors.predictor import Suggestion, best_with_prefix, context_ids
from tff_keyboard.predictors.prefix_index import PrefixIndex


class NGramPredictor:
    """A predictor with an n-gram model, as trained or from a file.

    Order 1 is the unigram baseline. Raises `ValueError` if the sizes of model and vocabulary
    differ.
    """

    def __init__(self, model: KneserNey | CompactNGram, vocabulary: Vocabulary):
        if model.vocabulary_size != len(vocabulary):
            raise ValueError(
                f"The n-gram has {model.vocabulary_size} rows, but the vocabulary has "
                f"{len(vocabulary)}."
            )
        self.model = model
        self.vocabulary = vocabulary

    @classmethod
    def train(
        cls, messages: Iterable[np.ndarray], vocabulary: Vocabulary, *, order: int = 5
    ) -> "NGramPredictor":
        """Trains on pooled messages, ids [words] each, without BOS and EOS."""
        model = KneserNey.train(messages, vocabulary_size=len(vocabulary), order=order)
        return cls(model, vocabulary)

    @functools.cached_property
    def _index(self) -> PrefixIndex:
        return PrefixIndex(self.vocabulary)  # 1 MB, not needed in a hybrid

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`."""
        ids, probabilities = best_with_prefix(self.next_word(context), self._index, prefix, k)
        words = self.vocabulary.words
        return [(words[i], float(p)) for i, p in zip(ids, probabilities, strict=True)]

    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """Returns the probabilities of the word after a context, [V] float32."""
        # The model reads only the last `order - 1` ids.
        ids = context_ids(self.vocabulary, context[-self.model.order :])
        if isinstance(self.model, KneserNey):
            ids = ids[-max(self.model.order - 1, 1) :]
            nodes = self.model.context_nodes(np.array([ids]))[0, -1:]
            return self.model.probabilities(nodes)[0]
        return self.model.distribution(self.model.contexts(ids))

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`. PAD and BOS get -inf."""
        probabilities = self.model.probabilities(self.model.context_nodes(ids)[ids != PAD])
        with np.errstate(divide="ignore"):
            return np.log(probabilities, out=probabilities)
