"""Any Keras model from ids [batch, time] to logits [batch, time, vocabulary], as a next-word model.

    def my_model(vocabulary_size, seed, units=64):
        return tf.keras.Sequential([
            tf.keras.layers.Embedding(vocabulary_size, units),
            tf.keras.layers.GRU(units, return_sequences=True),
            tf.keras.layers.Dense(vocabulary_size),
        ])

    model = build_model("my_models.py:my_model", vocabulary_size=10_000, seed=1, units=32)

A model that has `initial_state(batch_size)` and `step(ids, state)` streams: one step for each word.
Any other model reads the last `window` words for each prediction, in evaluation and on a phone. In
training it reads the whole sequence, of at most `data.max_length` words.
"""

import functools
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import OOV, PAD
from tff_keyboard.models import traced_keras_model
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.traced_keras_model import TracedKerasModel
from tff_keyboard.storage import json_text, part_reference
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.storage.part_reference import PartSource, UserPart

_KEY = "model.type"
_CHECKED_LOGITS = 2**24  # computed at once


def build_user_model(
    reference: str, *, vocabulary_size: int, seed: int | None, options: Mapping[str, Any]
) -> NextWordModel:
    """Builds the model of a user's function or class.

    The function gets `vocabulary_size`, the options, and `seed` if its signature has it. The
    initial weights depend only on the arguments: the random generators of Python, NumPy, TensorFlow
    and Keras start from `seed` while the function runs. `seed` = None gives weights of zero.

    Args:
      reference: `module:attribute` or `file.py:attribute`; see `storage.part_reference`.
      vocabulary_size: Rows of the output, including special ids.
      seed: Seed of the initial weights; None for zeros.
      options: Other arguments of the function, JSON values.

    Raises:
      ConfigError: If the function raises an error, has no such option, or returns something else
        than a Keras model that maps ids [batch, time] to logits [batch, time, vocabulary].
    """
    user_part = part_reference.load(reference, _KEY)
    recorded = user_part.source.reference
    _check_options(user_part, reference, options)
    options_text = json.dumps(dict(options), sort_keys=True)
    traced = _traced(recorded, vocabulary_size, options_text)
    if traced is None:  # a NextWordModel, which can be built in a graph
        model = _call(user_part, vocabulary_size, seed, options)
        model.name_in_registry, model.source = recorded, user_part.source
        return model
    values = None
    if seed is not None:
        values = traced_keras_model.outside_graphs(
            lambda: _initial_values(_call(user_part, vocabulary_size, seed, options)), seed
        )
    return KerasNextWordModel(
        traced,
        vocabulary_size=vocabulary_size,
        options=dict(options),
        source=user_part.source,
        values=values,
    )


def as_next_word_model(model: tf.keras.Model, vocabulary_size: int) -> NextWordModel:
    """Returns a `NextWordModel` with the weights of a Keras model, or the model if it is one.

    Args:
      model: A Keras model from ids [batch, time] to logits [batch, time, vocabulary].
      vocabulary_size: Rows of the vocabulary.

    Raises:
      ConfigError: If the model cannot be used as a next-word model. The message says why.
    """
    if isinstance(model, NextWordModel):
        return model
    label = f"The model '{getattr(model, 'name', type(model).__name__)}'"
    traced = traced_keras_model.trace(model, vocabulary_size, label)
    return KerasNextWordModel(traced, vocabulary_size=vocabulary_size, options={}, source=None)


def is_buildable(model: NextWordModel) -> bool:
    """Whether `build_model` can build the model again from its name and options."""
    return model.source is not None or not isinstance(model, KerasNextWordModel)


class KerasNextWordModel(NextWordModel):
    """A user's Keras model; the module docstring has its interface.

    Its weights are copies of the Keras model's weights, or the weights themselves if `source` is
    None.

    Args:
      traced: The model.
      vocabulary_size: Rows of the output, including special ids.
      options: Options with which the model was built.
      source: Its code; None for a model that was passed as an object.
      values: Initial weights; None for zeros. Not used if `source` is None.
    """

    def __init__(
        self,
        traced: TracedKerasModel,
        *,
        vocabulary_size: int,
        options: dict[str, Any],
        source: PartSource | None,
        values: list[np.ndarray] | None = None,
    ):
        super().__init__(vocabulary_size=vocabulary_size, state_size=[], options=options)
        self.source = source
        self.name_in_registry = source.reference if source else traced.model.name
        self.window = traced.window
        if source is None:
            self.model = traced.model
        else:
            for index, (name, variable) in enumerate(
                zip(traced.names, traced.model.trainable_variables, strict=True)
            ):
                constant = None if values is None else values[index]
                self.add_weight(
                    name, variable.shape, initializer=_initialiser(constant), dtype=tf.float32
                )
        self._options_text = json.dumps(options, sort_keys=True)
        self._traced = traced
        self._functions = BoundFunctions(traced, self.trainable_variables)
        if traced.window is not None:
            self.state_size = [traced.window]
        else:
            self.state_size = [math.prod(shape) for shape in traced.state_shapes]

    def check_every_word(self, length: int) -> None:
        """Checks that the model reads each word of the vocabulary, in messages of `length` words.

        Args:
          length: The largest number of words of a message in training.

        Raises:
          ConfigError: The model raises an error, or logits are NaN or infinite.
        """
        rows = max(1, _CHECKED_LOGITS // (length * self.vocabulary_size))
        ids = np.arange(-(-self.vocabulary_size // length) * length, dtype=np.int32)
        ids = np.where(ids < self.vocabulary_size, ids, OOV).reshape([-1, length])
        for start in range(0, len(ids), rows):
            words = ids[start : start + rows]
            try:
                logits = self._functions.train(tf.constant(words)).numpy()
            except tf.errors.OpError as error:
                raise ConfigError(
                    f"`{_KEY}` = {self.name_in_registry!r}: a message of {length} words "
                    f"(`data.max_length`) {part_reference.what_happened(error)}"
                ) from error
            if not np.isfinite(logits).all():
                word = words[~np.isfinite(logits).all(axis=2)][0]
                raise ConfigError(
                    f"`{_KEY}` = {self.name_in_registry!r}: the logits after the word with id "
                    f"{word} are NaN or infinite with initial weights."
                )

    def for_one_row(self) -> "BoundFunctions":
        """Returns the functions of this model, with its variables, for a batch of one message."""
        return BoundFunctions(self._traced.for_one_row(), self.trainable_variables)

    def packed_hidden_at_targets(self, ids, targets, training=None):
        logits = self._functions.train(ids) if training else self._logits_of(ids)
        is_real = tf.not_equal(targets, PAD)
        return tf.boolean_mask(logits, is_real), None, None, tf.boolean_mask(targets, is_real)

    def hidden(self, ids, training=None):
        return self._functions.train(ids) if training else self._logits_of(ids)

    def logits(self, hidden):
        """Returns `hidden`, which are the logits."""
        return hidden

    def initial_state(self, batch_size):
        return self._functions.initial_state(batch_size)

    def advance(self, ids, state):
        return self._functions.advance(ids, state)

    @property
    def word_axes(self):
        if self.source is None:
            raise ValueError("The axes of words need a model that `build_model` can build again.")
        larger = _traced(self.source.reference, self.vocabulary_size + 1, self._options_text)
        assert larger is not None
        return [
            tuple(axis for axis, size in enumerate(mine.shape) if size != other.shape[axis])
            for mine, other in zip(
                self.trainable_variables, larger.model.trainable_variables, strict=True
            )
        ]

    def _logits_of(self, ids):
        """Returns the logits [batch, time, vocabulary], each after at most `window` words."""
        infer, window = self._functions.infer, self.window
        if window is None:
            return infer(ids)

        def long():
            """Returns the logits of sequences longer than the window.

            The words of the first window see the words before them; each later word sees a full
            window.
            """
            later = tf.signal.frame(ids[:, 1:], window, 1, axis=1)  # [batch, time - window, window]
            by_time = tf.transpose(later, [1, 0, 2])
            last = tf.map_fn(
                lambda words: infer(words)[:, -1], by_time, fn_output_signature=tf.float32
            )
            first = infer(ids[:, :window])
            return tf.concat([first, tf.transpose(last, [1, 0, 2])], axis=1)

        return tf.cond(tf.shape(ids)[1] > window, long, lambda: infer(ids))


class BoundFunctions:
    """The functions of a Keras model that read and train the given weights."""

    def __init__(self, traced: TracedKerasModel, weights: Sequence[tf.Variable]):
        self._window = traced.window
        self.infer = traced.bind(traced.infer, weights)
        self.train = traced.bind(traced.train, weights)
        self._initial = traced.bind(traced.initial, weights) if traced.initial else None
        self._step = traced.bind(traced.step, weights) if traced.step else None

    def initial_state(self, batch_size: int | tf.Tensor) -> list[tf.Tensor]:
        """See `NextWordModel.initial_state`."""
        if self._initial is not None:
            return list(self._initial(tf.convert_to_tensor(batch_size, tf.int32)))
        return [tf.fill([batch_size, self._window], PAD)]

    def advance(self, ids: tf.Tensor, state: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """See `NextWordModel.advance`."""
        if self._step is None:
            window = push(state[0], ids)
            return self.logits_of_window(window), [window]
        logits, *stepped = self._step(ids, *state)
        is_word = tf.not_equal(ids, PAD)
        new_state = []
        for new, old in zip(stepped, state, strict=True):
            mask = tf.reshape(is_word, [-1] + [1] * (new.shape.rank - 1))
            new_state.append(tf.where(mask, new, old))
        return logits, new_state

    def logits_of_window(self, window: tf.Tensor) -> tf.Tensor:
        """Returns the logits [batch, vocabulary] after the last word of windows [batch, window]."""
        words = tf.math.count_nonzero(tf.not_equal(window, PAD), axis=1, dtype=tf.int32)
        return tf.gather(self.infer(window), tf.maximum(words - 1, 0), batch_dims=1)


def push(window: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Appends a word to each window [batch, window] int32, without its first word if it is full.

    A PAD id [batch] changes nothing. The words of a window are followed by PAD.
    """
    width = window.shape[1]
    words = tf.math.count_nonzero(tf.not_equal(window, PAD), axis=1, dtype=tf.int32)
    shifted = tf.concat([window[:, 1:], tf.zeros_like(window[:, :1])], axis=1)
    moved = tf.where((words == width)[:, tf.newaxis], shifted, window)
    end = tf.minimum(words, width - 1)
    is_end = tf.range(width)[tf.newaxis] == end[:, tf.newaxis]
    pushed = tf.where(is_end, ids[:, tf.newaxis], moved)
    return tf.where(tf.not_equal(ids, PAD)[:, tf.newaxis], pushed, window)


def _initialiser(value: np.ndarray | None) -> Callable[..., tf.Tensor]:
    def initialise(shape, dtype=tf.float32, **_):
        return tf.zeros(shape, dtype) if value is None else tf.constant(value, dtype)

    return initialise


@functools.lru_cache(maxsize=8)
def _traced(reference: str, vocabulary_size: int, options_text: str) -> TracedKerasModel | None:
    """Builds and traces a user's model; None for a `NextWordModel`."""
    user_part = part_reference.load(reference, _KEY)

    def build() -> TracedKerasModel | None:
        model = _call(user_part, vocabulary_size, 0, json_text.parse(options_text.encode()))
        if isinstance(model, NextWordModel):
            _check_repeatable(model, _label(user_part))
            return None
        return traced_keras_model.trace(model, vocabulary_size, _label(user_part))

    traced: TracedKerasModel | None = traced_keras_model.outside_graphs(build, 0)
    return traced


def _check_repeatable(model: NextWordModel, label: str) -> None:
    """Raises `ConfigError` if the model draws random numbers or calls Python in training."""
    batch = tf.TensorSpec([None, None], tf.int32)
    loss_inputs = traced_keras_model.Traceable(
        lambda ids, targets: model.packed_hidden_at_targets(ids, targets, training=True),
        (batch, batch),
    )
    traced_keras_model.check_repeatable(loss_inputs.trace(), label)


def _call(
    user_part: UserPart, vocabulary_size: int, seed: int | None, options: Mapping[str, Any]
) -> Any:
    """Calls the user's function. Any error in it becomes a `ConfigError`."""
    seeds = {"seed": seed} if "seed" in _parameters(user_part) else {}
    try:
        return user_part.part(vocabulary_size=vocabulary_size, **seeds, **options)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{_label(user_part)}: {part_reference.what_happened(error)}") from error


def _initial_values(model: tf.keras.Model) -> list[np.ndarray]:
    model(tf.ones([1, 2], tf.int32), training=False)  # a model may create its weights here
    return [variable.numpy() for variable in model.trainable_variables]


def _check_options(user_part: UserPart, reference: str, options: Mapping[str, Any]) -> None:
    """Raises `ConfigError` unless a config's options are the arguments of the user's function."""
    parameters = _parameters(user_part)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if "vocabulary_size" not in parameters:
        raise ConfigError(f"{_label(user_part)} must take an argument `vocabulary_size`.")
    for name in options:
        if name not in parameters and not takes_all:
            raise ConfigError(f"`model.{name}` is not an option of {reference!r}. Leave it out.")
    arguments = {*options, "vocabulary_size", "seed"}
    for name, parameter in parameters.items():
        is_named = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if is_named and parameter.default is parameter.empty and name not in arguments:
            raise ConfigError(f"{_label(user_part)} needs the option `model.{name}`. Set it.")


def _parameters(user_part: UserPart) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(user_part.part).parameters
    except (TypeError, ValueError):
        return {}


def _label(user_part: UserPart) -> str:
    return f"`{_KEY}` = {user_part.source.reference!r}"
