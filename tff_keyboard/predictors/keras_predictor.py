"""A Keras next-word model as a `Predictor`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import PAD, Vocabulary
from tff_keyboard.models import build_model
from tff_keyboard.models.keras_next_word_model import as_next_word_model, is_buildable
from tff_keyboard.predictors.predictor import Suggestion, context_ids, suggestions
from tff_keyboard.predictors.prefix_index import PrefixIndex


class KerasPredictor:
    """A predictor with a `NextWordModel`, or any Keras model of a next word. Not thread-safe.

    `suggest` keeps the recurrent state of the last context, as a keyboard does. A context that
    continues the last one costs one step per new word, and further letters of the same word cost no
    step. Call `reset` after the model's weights have changed. Raises `ValueError` if the sizes of
    model and vocabulary differ.
    """

    def __init__(self, model: tf.keras.Model, vocabulary: Vocabulary):
        model = as_next_word_model(model, len(vocabulary))
        if model.vocabulary_size != len(vocabulary):
            raise ValueError(
                f"The model has {model.vocabulary_size} rows, but the vocabulary has "
                f"{len(vocabulary)}: they belong to different runs."
            )
        self.model = model
        self.vocabulary = vocabulary
        self._index = PrefixIndex(vocabulary)
        # Models have no Python loops over tensors, so AutoGraph is not needed.
        self._score = tf.function(
            self._log_softmax_of_tokens,
            input_signature=[tf.TensorSpec([None, None], tf.int32)],
            autograph=False,
        )
        self._step = tf.function(self._step_one_word, autograph=False)
        self.reset()

    def __reduce__(self) -> tuple[Any, ...]:
        model = self.model
        if not is_buildable(model):
            raise ValueError(
                f"The model '{model.name_in_registry}' cannot be built again in another process. "
                "Build it with `build_model('file.py:function', ...)`."
            )
        weights = [variable.numpy() for variable in model.trainable_variables]
        return _rebuilt, (model.name_in_registry, model.options, weights, self.vocabulary)

    def reset(self) -> None:
        """Removes the last context."""
        self._context: list[int] = []
        self._state = self.model.initial_state(1)
        self._scores = np.empty([0], np.float32)

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """See `Predictor.suggest`."""
        self._read(context)
        return suggestions(self._scores, self._index, prefix, k)

    def next_word(self, context: Sequence[str]) -> np.ndarray:
        """Returns the probabilities of the word after a context, [V] float32."""
        self._read(context)
        return np.exp(self._scores)

    def _read(self, context: Sequence[str]) -> None:
        """Advances state and scores to the end of `context`."""
        ids = context_ids(self.vocabulary, context)
        num_read = len(self._context)
        if ids[:num_read] != self._context:
            self.reset()
            num_read = 0
        for word_id in ids[num_read:]:
            scores, self._state = self._step(tf.constant([word_id], tf.int32), self._state)
            self._scores = scores.numpy()
        self._context = ids

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """See `Predictor.log_probabilities`."""
        return self._score(tf.constant(ids, tf.int32)).numpy()

    def _log_softmax_of_tokens(self, ids: tf.Tensor) -> tf.Tensor:
        hidden = tf.boolean_mask(self.model.hidden(ids, training=False), tf.not_equal(ids, PAD))
        return tf.nn.log_softmax(self.model.logits(hidden))

    def _step_one_word(
        self, ids: tf.Tensor, state: list[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        logits, state = self.model.step(ids, state)
        return tf.nn.log_softmax(logits)[0], state


def _rebuilt(
    name: str, options: Mapping[str, Any], weights: Sequence[np.ndarray], vocabulary: Vocabulary
) -> KerasPredictor:
    """Rebuilds a predictor from its pickle."""
    model = build_model(name, vocabulary_size=len(vocabulary), seed=None, **options)
    for variable, value in zip(model.trainable_variables, weights, strict=True):
        variable.assign(value)
    return KerasPredictor(model, vocabulary)
