"""Traces a Keras model into functions of its weights, and checks the needs of training and export.

A federated client builds its model anew in a TensorFlow graph in each round. Keras models cannot be
built there next to models that exist already. So a model is built once, outside of any graph, and
traced. The traced functions then run with the weights of any copy (`TracedKerasModel.bind`).
"""

import contextlib
import contextvars
import dataclasses
import functools
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as eager_context
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.ops import resource_variable_ops

from tff_keyboard.data.vocabulary import BOS, OOV
from tff_keyboard.storage import part_reference
from tff_keyboard.storage.errors import ConfigError

WINDOW = 32
"""Words that a model without `step` reads for a prediction, unless it has an attribute `window`."""

_TOLERANCE = 1e-3  # of logits: differences of float32 in another order
# The common operations that a resumed run could not repeat. The list is not complete, and privacy
# does not depend on it (`algorithms/rounds/noised.py`).
_NOT_REPEATABLE = re.compile(
    r"(Random|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial"
    r"|Stateful(?!PartitionedCall)|PyFunc|EagerPyFunc|Timestamp)"
)


@dataclasses.dataclass(frozen=True)
class Traceable:
    """A function of a Keras model, and the specs of its arguments."""

    function: Callable[..., Any]
    specs: tuple[tf.TensorSpec, ...]

    def trace(self) -> ConcreteFunction:
        """Traces it anew. A trace cannot be shared, because taking its gradient changes it."""
        return tf.function(self.function).get_concrete_function(*self.specs)


@dataclasses.dataclass(frozen=True)
class TracedKerasModel:
    """A Keras model that was traced and checked.

    Attributes:
      model: The Keras model.
      names: Names of its weights: Keras's names without counters, so they do not depend on models
        that were built before.
      window: Words that it reads for a prediction; None if it has `step`.
      infer: Its call, ids [batch, time] to logits [batch, time, vocabulary].
      train: The same with `training=True`.
      initial: Its `initial_state`, batch size to a list of states; None without `step`.
      step: Its `step`, ids [batch] and states to a list of logits and states; None without `step`.
      state_shapes: Shape of each state of one row.
    """

    model: tf.keras.Model
    names: list[str]
    window: int | None
    infer: Traceable
    train: Traceable
    initial: Traceable | None = None
    step: Traceable | None = None
    state_shapes: tuple[tf.TensorShape, ...] = ()

    def for_one_row(self) -> "TracedKerasModel":
        """Returns the model for a batch of one message, of `window` words if it has a window.

        Keras' recurrent layers then have no loop, which TFLite could not run.
        """

        def narrow(traceable: Traceable | None, *ids_shape: int | None) -> Traceable | None:
            if traceable is None:
                return None
            specs = [tf.TensorSpec([1, *s.shape[1:]], s.dtype) for s in traceable.specs[1:]]
            ids = tf.TensorSpec([1, *ids_shape], tf.int32)
            return dataclasses.replace(traceable, specs=(ids, *specs))

        infer, step = narrow(self.infer, self.window), narrow(self.step)
        assert infer is not None
        if self.window is not None:
            call = functools.partial(_unrolled, self.model, infer.function)
            infer = dataclasses.replace(infer, function=call)
        return dataclasses.replace(self, infer=infer, step=step)

    def bind(self, traceable: Traceable, weights: Sequence[tf.Variable]) -> Callable[..., Any]:
        """Returns a function that reads and trains `weights` instead of the model's own weights.

        It is traced at its first call.
        """
        variables = self.model.trainable_variables
        index_of_handle = {id(variable.handle): index for index, variable in enumerate(variables)}
        traced: list[tuple[ConcreteFunction, list[Any]]] = []

        def in_this_graph(captured: Any) -> Any:
            if id(captured) in index_of_handle:
                return weights[index_of_handle[id(captured)]].handle
            # A constant of the model
            return captured if tf.executing_eagerly() else tf.constant(captured.numpy())

        def call(*arguments: Any) -> Any:
            """Calls the function, traced at the first call, with the values of `weights`."""
            if not traced:
                graph_function = outside_graphs(traceable.trace, 0)
                traced.append((graph_function, list(graph_function.captured_inputs)))
            function, captures = traced[0]
            function.set_external_captures([in_this_graph(captured) for captured in captures])
            for weight in weights:
                resource_variable_ops.variable_accessed(weight)  # so that tapes watch it
            return function(*arguments)

        return call


def _unrolled(model: tf.keras.Model, function: Callable[..., Any], ids: tf.Tensor) -> Any:
    """Calls a function while all recurrent layers of a model are unrolled."""
    layers = [part for part in model.submodules if isinstance(part, tf.keras.layers.RNN)]
    names = ("unroll", "_could_use_gpu_kernel")
    before = [{name: getattr(layer, name, None) for name in names} for layer in layers]
    try:
        for layer in layers:
            layer.unroll, layer._could_use_gpu_kernel = True, False
        return function(ids)
    finally:
        for layer, values in zip(layers, before, strict=True):
            for name, value in values.items():
                setattr(layer, name, value)


def trace(model: Any, vocabulary_size: int, label: str) -> TracedKerasModel:
    """Traces a Keras model from ids [batch, time] to logits [batch, time, vocabulary].

    Args:
      model: The model. Weights that it creates at its first call exist afterwards.
      vocabulary_size: Rows of the vocabulary.
      label: Name of the model, for error messages.

    Raises:
      ConfigError: If it cannot be used as a next-word model. The message says why.
    """
    if not isinstance(model, tf.keras.Model):
        raise ConfigError(f"{label} must be a tf.keras.Model, got {type(model).__name__}.")
    ids = np.array([[BOS, OOV, OOV], [BOS, vocabulary_size - 1, OOV]], np.int32)
    with _errors_of_calls(label, "call"):
        logits = model(tf.constant(ids), training=False)
        before = len(model.weights)
        model(tf.constant(ids[:1, :2]), training=True)
    if len(model.weights) != before:
        raise ConfigError(
            f"{label} creates weights after its first call. Create all of them in `__init__` or "
            "`build`."
        )
    _check_logits(logits, [2, 3, vocabulary_size], label, "returns")
    _check_weights(model, label)
    _check_order(model, ids, label)
    batch = tf.TensorSpec([None, None], tf.int32)
    infer = Traceable(lambda ids: model(ids, training=False), (batch,))
    train = Traceable(lambda ids: model(ids, training=True), (batch,))
    with _errors_of_calls(label, "call"):
        traces = infer.trace(), train.trace()
    _check_captures(model, traces, label)
    check_repeatable(traces[1], label)
    _check_gradients(model, ids, label)
    names = stable_names([variable.name for variable in model.trainable_variables])
    window = getattr(model, "window", WINDOW)
    if not callable(getattr(model, "step", None)):
        if type(window) is not int or window < 1:
            raise ConfigError(f"{label}: its attribute `window` must be an int >= 1.")
        return TracedKerasModel(model, names, window, infer, train)
    if not callable(getattr(model, "initial_state", None)):
        raise ConfigError(f"{label} has `step`, so it also needs `initial_state(batch_size)`.")
    initial, step = _step_of(model, label)
    with _errors_of_calls(label, "step"):
        traces = initial.trace(), step.trace()
    _check_captures(model, traces, label)
    _check_step(model, traces, vocabulary_size, label)
    shapes = tuple(spec.shape[1:] for spec in step.specs[1:])
    return TracedKerasModel(model, names, None, infer, train, initial, step, shapes)


def stable_names(keras_names: Sequence[str]) -> list[str]:
    """Returns unique names without the counters that Keras appends to the names of layers.

    >>> stable_names(["gru_3/gru_cell_3/kernel:0", "dense_7/kernel:0", "dense_8/kernel:0"])
    ['gru.gru_cell.kernel', 'dense.kernel', 'dense.kernel_2']
    """
    names: list[str] = []
    for keras_name in keras_names:
        parts = [re.sub(r"_\d+$", "", part) for part in keras_name.split(":")[0].split("/")]
        name = re.sub(r"[^A-Za-z0-9_.]", "_", ".".join(parts))
        base, number = name, 2
        while name in names:
            name, number = f"{base}_{number}", number + 1
        names.append(name)
    return names


def outside_graphs(build: Callable[[], Any], seed: int) -> Any:
    """Calls `build` outside of any graph, with random numbers that depend on `seed` only.

    The seeds of Python, NumPy and TensorFlow are the caller's again afterwards.
    """
    result: list[Any] = []
    problem: list[BaseException] = []

    def run() -> None:
        try:
            with _seeded(seed):
                result.append(build())
        except BaseException as error:
            problem.append(error)

    # A new thread has no default graph, and Keras keeps its own seed for each thread. Whether
    # a file names the model (`trusted_code.named_by_file`) is the same as here.
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name="build a Keras model")
    thread.start()
    thread.join()
    if problem:
        raise problem[0]
    return result[0]


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds Python, NumPy and TensorFlow in a block, and restores their states after it."""
    tensorflow = eager_context.context()
    tensorflow.ensure_initialized()
    of_python, of_numpy = random.getstate(), np.random.get_state()
    of_tensorflow = {name: vars(tensorflow).get(name) for name in ("_seed", "_rng")}
    tf.keras.utils.set_random_seed(seed % 2**31)
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        vars(tensorflow).update(of_tensorflow)


def _step_of(model: Any, label: str) -> tuple[Traceable, Traceable]:
    """Returns `initial_state` and `step` with flat states."""
    with _errors_of_calls(label, "initial_state"):
        example = model.initial_state(1)
        parts = [tf.convert_to_tensor(part) for part in tf.nest.flatten(example)]
    for part in parts:
        if part.dtype != tf.float32 or part.shape.rank < 2 or part.shape[0] != 1:
            raise ConfigError(
                f"{label}: `initial_state(1)` must be float32 tensors [1, ...], got "
                f"{part.dtype.name} {part.shape.as_list()}."
            )

    def initial(batch_size: tf.Tensor) -> list[tf.Tensor]:
        return tf.nest.flatten(model.initial_state(batch_size))

    def step(ids: tf.Tensor, *state: tf.Tensor) -> list[tf.Tensor]:
        logits, new_state = model.step(ids, tf.nest.pack_sequence_as(example, list(state)))
        tf.nest.assert_same_structure(example, new_state)
        return [logits, *tf.nest.flatten(new_state)]

    specs = [tf.TensorSpec([None, *part.shape[1:]], tf.float32) for part in parts]
    return (
        Traceable(initial, (tf.TensorSpec([], tf.int32),)),
        Traceable(step, (tf.TensorSpec([None], tf.int32), *specs)),
    )


@contextlib.contextmanager
def _errors_of_calls(label: str, method: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ConfigError(f"{label}: `{method}`: {part_reference.what_happened(error)}") from error


def _check_logits(logits: Any, shape: list[int], label: str, verb: str) -> None:
    if not tf.is_tensor(logits):
        raise ConfigError(f"{label} {verb} {type(logits).__name__}, but must return one tensor.")
    if logits.dtype != tf.float32:
        raise ConfigError(f"{label} {verb} {logits.dtype.name}, but logits must be float32.")
    if logits.shape.as_list() != shape:
        raise ConfigError(
            f"{label} {verb} logits {logits.shape.as_list()} where {shape} is required (the last "
            "number is the size of the vocabulary)."
        )
    if not np.isfinite(logits.numpy()).all():
        raise ConfigError(f"{label} {verb} logits that are NaN or infinite with initial weights.")


def _check_weights(model: tf.keras.Model, label: str) -> None:
    """Raises `ConfigError` unless the model has weights, all of them trainable and float32."""
    if model.non_trainable_weights:
        raise ConfigError(
            f"{label}: the weight '{model.non_trainable_weights[0].name}' is not trainable. A "
            "federated round averages trained weights only, so batch normalisation, frozen layers "
            "and other state are not supported. Use layer normalisation, or train the weight."
        )
    if not model.trainable_weights:
        raise ConfigError(f"{label} has no weights.")
    for variable in model.trainable_weights:
        if variable.dtype != tf.float32:
            raise ConfigError(
                f"{label}: the weight '{variable.name}' is {variable.dtype.name}, but must be "
                "float32."
            )


def _check_order(model: tf.keras.Model, ids: np.ndarray, label: str) -> None:
    """Checks that the logits at a position do not depend on later words."""
    changed = ids.copy()
    changed[:, -1] = 0
    first, second = (model(tf.constant(batch), training=False).numpy() for batch in (ids, changed))
    if not np.allclose(first[:, :-1], second[:, :-1], rtol=_TOLERANCE, atol=_TOLERANCE):
        raise ConfigError(
            f"{label} reads words that come after a position to predict at this position. Use a "
            "causal mask, and no bidirectional layer."
        )


def _check_captures(
    model: tf.keras.Model, functions: Sequence[ConcreteFunction], label: str
) -> None:
    weights = {id(variable.handle) for variable in model.trainable_variables}
    for function in functions:
        for captured in function.captured_inputs:
            if captured.dtype == tf.resource and id(captured) not in weights:
                raise ConfigError(
                    f"{label} reads a variable that is not one of its trainable weights. Create "
                    "it with `add_weight`, or in a layer that is an attribute of the model."
                )


def check_repeatable(train: ConcreteFunction, label: str) -> None:
    """Raises `ConfigError` if a traced function has operations that cannot be repeated."""
    graph = train.graph.as_graph_def(add_shapes=False)
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    for node in nodes:
        if _NOT_REPEATABLE.match(node.op):
            raise ConfigError(
                f"{label} draws random numbers or calls Python in training ({node.name}), which a "
                "resumed run could not repeat. Use tff_keyboard.models.Dropout instead of Keras' "
                "Dropout."
            )


def _check_gradients(model: tf.keras.Model, ids: np.ndarray, label: str) -> None:
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(tf.constant(ids), training=True)))
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        if gradient is None:
            raise ConfigError(
                f"{label}: the logits do not depend on the weight '{variable.name}'. Remove it."
            )


def _check_step(
    model: tf.keras.Model,
    traces: tuple[ConcreteFunction, ConcreteFunction],
    vocabulary_size: int,
    label: str,
) -> None:
    """Checks that `step` gives the logits of `call`."""
    initial, step = traces
    ids = np.array([[BOS, OOV, vocabulary_size - 1, OOV, OOV]] * 2, np.int32)
    expected = model(tf.constant(ids), training=False).numpy()
    state = initial(tf.constant(2))
    for position, column in enumerate(ids.T):
        logits, *state = step(tf.constant(column), *state)
        _check_logits(logits, [2, vocabulary_size], label, "`step` returns")
        if not np.allclose(logits, expected[:, position], rtol=_TOLERANCE, atol=_TOLERANCE):
            raise ConfigError(
                f"{label}: `step` gives other logits than a call with the whole message, after "
                f"{position + 1} words. Both must compute the same model."
            )
