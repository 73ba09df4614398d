"""Exports any next-word model with TensorFlow's converter, to the signatures of a keyboard.

    step(token, c, h)     c: all parts of the model's state in one row, minus its initial state
                          h: the hidden vector, from which `logits` computes the scores

A recurrent model gets its rows in the order of the file. The graph of a Keras model translates ids
instead, because the graph may use their order; its h are its logits. A Keras model without `step`
keeps its last words in c, and reads all of them for each prediction.

The converter quantises to int8 with one scale for each matrix (dynamic range).
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, PAD
from tff_keyboard.models import NextWordModel, RecurrentModel, build_model
from tff_keyboard.models.keras_next_word_model import KerasNextWordModel, push
from tff_keyboard.models.next_word_model import with_word_rows
from tflite_export.format import signatures
from tflite_export.graphs.cifg_weights import check_finite
from tflite_export.graphs.converter import convert_module, stripped
from tflite_export.graphs.flatbuffer_builder import model_to_bytes

Advance = Callable[[tf.Tensor, list[tf.Tensor]], tuple[tf.Tensor, list[tf.Tensor]]]


@dataclasses.dataclass(frozen=True)
class StreamingWeights:
    """A trained model in the order of the file.

    Attributes:
      model: The model. Its ids are the file's if `rows` is None.
      rows: Id in the model for each id of the file, int32 [V]; None if they are equal.
      c: Width of c.
      h: Width of h.
      table_shapes: Shapes of the tables with one row for each word that a reader can compare.
    """

    model: NextWordModel
    rows: np.ndarray | None
    c: int
    h: int
    table_shapes: tuple[tuple[int, int], ...]

    @classmethod
    def from_model(cls, model: NextWordModel, rows: np.ndarray) -> "StreamingWeights":
        """Returns the weights of a model; `rows` [V] are its ids in the order of the file.

        Raises:
          ExportError: If a weight is not finite.
        """
        check_finite({v.name: v.numpy() for v in model.trainable_variables})
        state = model.initial_state(1)
        width = sum(math.prod(part.shape[1:]) for part in state)
        if not isinstance(model, RecurrentModel):
            return cls(model, np.asarray(rows, np.int32), width, model.vocabulary_size, ())
        ordered = build_model(
            model.name_in_registry,
            vocabulary_size=model.vocabulary_size,
            seed=None,
            **model.options,
        )
        for variable, source, axes in zip(
            ordered.trainable_variables, model.trainable_variables, model.word_axes, strict=True
        ):
            variable.assign(with_word_rows(source.numpy(), axes, rows))
        table, _ = model.output_table
        shapes = tuple(tables_of(model))
        return cls(ordered, None, width, int(table.shape[1]), shapes)

    def copies(self, shape: tuple[int, int]) -> int:
        """Returns the number of weights of a shape or its transpose."""
        sizes = [tuple(variable.shape) for variable in self.model.trainable_variables]
        return sum(size in (shape, shape[::-1]) for size in sizes)


def tables_of(model: NextWordModel) -> dict[tuple[int, int], list[np.ndarray]]:
    """Returns the tables of a recurrent model with one row for each word, by their shape."""
    tables: dict[tuple[int, int], list[np.ndarray]] = {}
    if isinstance(model, RecurrentModel):
        for variable, axes in zip(model.trainable_variables, model.word_axes, strict=True):
            if axes == (0,) and variable.shape.rank == 2:
                tables.setdefault(tuple(variable.shape), []).append(variable.numpy())
    return tables


def convert(weights: StreamingWeights, quantization: str, *, top_k: int) -> bytes:
    """Returns the bytes of a `.tflite` file with `predict`, `step` and `logits`.

    Raises:
      ExportError: If the model has operators that are not built into TFLite.
    """
    module = _Functions(weights, top_k)
    model = convert_module(module, signatures.INFERENCE_SIGNATURES, quantization)
    return model_to_bytes(stripped(model))


class _Functions(tf.Module):
    """The signatures as TensorFlow functions; `tflite_export.format.signatures` describes them."""

    def __init__(self, weights: StreamingWeights, top_k: int):
        super().__init__()
        model = weights.model
        # The variables, and not the model: Keras would save all its functions.
        self._variables = list(model.trainable_variables)
        self._top_k = top_k
        self._size = model.vocabulary_size
        self._rows = weights.rows
        self._initial = [part.numpy() for part in model.initial_state(1)]
        self._is_window = isinstance(model, KerasNextWordModel) and model.window is not None
        one_row: Any = model.for_one_row() if isinstance(model, KerasNextWordModel) else model
        self._advance: Advance = _untracked(one_row.advance)
        self._logits_of_hidden = _untracked(model.logits)
        self._logits_of_window = _untracked(getattr(one_row, "logits_of_window", None))
        state = [
            tf.TensorSpec([1, weights.c], tf.float32, "c"),
            tf.TensorSpec([1, weights.h], tf.float32, "h"),
        ]
        self._zeros = [np.zeros(spec.shape, np.float32) for spec in state]
        self.predict = tf.function(
            self._predict, input_signature=[tf.TensorSpec([1, None], tf.int32, "tokens")]
        )
        self.step = tf.function(
            self._step, input_signature=[tf.TensorSpec([1], tf.int32, "token"), *state]
        )
        self.logits = tf.function(self._logits, input_signature=state[1:])

    def _predict(self, tokens):
        """Reads all tokens [1, time] from the initial state. Returns the outputs after the last."""
        read = self._push if self._is_window else self._read_token

        def read_next(position, c, h):
            # The reshape fails if the batch size is not 1. A squeeze would be converted to an
            # operator that does not fail.
            token = tf.reshape(tf.gather(tokens, [position], axis=1), [1])
            return position + 1, *read(token, c, h)

        _, c, h = tf.while_loop(
            lambda position, *_: position < tf.shape(tokens)[1],
            read_next,
            (tf.constant(0), *map(tf.constant, self._zeros)),
        )
        if self._is_window:
            h = self._logits_of_window(tf.cast(c, tf.int32))
        return self._outputs(c, h)

    def _step(self, token, c, h):
        return self._outputs(*self._read_token(token, c, h))

    def _logits(self, h):
        return {"logits": self._scores(h)}

    def _outputs(self, c, h):
        """Returns the best words, their probabilities, and the state, given a state."""
        probabilities = tf.nn.softmax(self._scores(h))
        values, rows = tf.math.top_k(probabilities[:, NUM_SPECIAL:], self._top_k)
        return {"ids": rows + NUM_SPECIAL, "probabilities": values, "new_c": c, "new_h": h}

    def _scores(self, h):
        """Returns the logits of h in the order of the file."""
        logits = self._logits_of_hidden(h)
        return logits if self._rows is None else tf.gather(logits, self._rows, axis=1)

    def _own_ids(self, token):
        """Returns the model's id of a token of the file. Ids without a row are read as OOV."""
        token = tf.where(tf.logical_and(token >= 0, token < self._size), token, OOV)
        return token if self._rows is None else tf.gather(self._rows, token)

    def _push(self, token, c, h):
        """Returns the state with a token added to the window of ids in c. h is unchanged."""
        return tf.cast(push(tf.cast(c, tf.int32), self._own_ids(token)), tf.float32), h

    def _read_token(self, token, c, h):
        """Returns the state after `token` [1]. PAD leaves the state unchanged."""
        if self._is_window:
            new_c, _ = self._push(token, c, h)
            new_h = self._logits_of_window(tf.cast(new_c, tf.int32))
        else:
            new_h, state = self._advance(self._own_ids(token), self._unpacked(c))
            new_c = self._packed(state)
        is_word = tf.not_equal(token, PAD)[:, tf.newaxis]
        return tf.where(is_word, new_c, c), tf.where(is_word, new_h, h)

    def _unpacked(self, c: tf.Tensor) -> list[tf.Tensor]:
        """Returns the parts of a state, from one row c that is 0 in the initial state."""
        sizes = [part.size for part in self._initial]
        parts = tf.split(c, sizes, axis=1) if len(sizes) > 1 else [c]
        return [
            _plus(tf.reshape(part, initial.shape), initial)
            for part, initial in zip(parts, self._initial, strict=True)
        ]

    def _packed(self, state: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns a state as one row, minus the initial state, so that zeros stand for it."""
        rows = [
            tf.reshape(_plus(part, -initial), [1, initial.size])
            for part, initial in zip(state, self._initial, strict=True)
        ]
        return tf.concat(rows, axis=1) if len(rows) > 1 else rows[0]


def _plus(values: tf.Tensor, constant: np.ndarray) -> tf.Tensor:
    return values + constant if constant.any() else values


def _untracked(function):
    """Hides the object of a bound method from `tf.Module`."""
    return None if function is None else lambda *arguments: function(*arguments)
