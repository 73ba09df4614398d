"""Checks that a trainable file trains: its training signatures against automatic differentiation.

    weights      the trained weights, rounded to at most half a step of int8 with one scale a row
    train        the loss of a message and one step of plain SGD, as TensorFlow's tape computes them
    after it     `logits` belong to the new weights
    set_weights  restores the first weights bit by bit, and their logits

The reference is the CIFG's equations in a dozen lines of TensorFlow. It shares no code with the
hand-written gradient of `trainable.py`.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, PAD
from tff_keyboard.models import NextWordModel
from tff_keyboard.storage.errors import CheckFailed
from tflite_export.format import signatures
from tflite_export.gate.shown_words import Reader
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

LEARNING_RATE = 0.5
MESSAGE_WORDS = 8

# Both sides compute in float32; docs/phone/export.md has the values of correct files.
_TOLERANCE = 1e-3
_INT8_MAX = 127
_TINY = float(np.finfo(np.float32).tiny)

Weights = Mapping[str, np.ndarray]


def check_training(predictor: KeyboardPredictor, model: NextWordModel, rows: np.ndarray) -> None:
    """Runs one training step, checks it, and restores the weights.

    Args:
      predictor: The trainable file.
      model: The trained model.
      rows: Row of the model's table for each row of the file's table.

    Raises:
      CheckFailed: If the file is broken, regardless of how its weights were rounded.
    """
    trained = {_name(variable): variable.numpy() for variable in model.trainable_variables}
    trained["embedding"] = trained["embedding"][rows]
    before = predictor.signature(signatures.WEIGHTS)()
    _check_stored(before, trained)

    random = np.random.default_rng(0)
    words = random.integers(NUM_SPECIAL, len(rows), MESSAGE_WORDS)
    message = np.array([BOS, *words, EOS, PAD], np.int32)
    loss, gradients = _loss_and_gradients(before, message[:-1])  # PAD is not a target
    outputs = predictor.signature(signatures.TRAIN)(
        tokens=message[np.newaxis], learning_rate=np.float32(LEARNING_RATE)
    )
    _check_near("train", "the loss", outputs["loss"], np.array(loss))
    after = predictor.signature(signatures.WEIGHTS)()
    for name, gradient in gradients.items():
        moved = (before[name] - after[name]) / LEARNING_RATE
        _check_near("train", f"the step of `{name}`", moved, gradient)
    _check_logits(predictor, after, message[:-2])

    predictor.signature(signatures.SET_WEIGHTS)(**before)
    again = predictor.signature(signatures.WEIGHTS)()
    for name, value in before.items():
        if not np.array_equal(again[name], value):
            raise _broken("set_weights", f"`{name}` differs from the value that was set")
    _check_logits(predictor, before, message[:-2])


def _check_stored(stored: Weights, trained: Weights) -> None:
    """Raises an error unless the int8 weights are the trained ones within half a step per row."""
    if {name: value.shape for name, value in stored.items()} != {
        name: value.shape for name, value in trained.items()
    }:
        raise _broken("weights", "the names or shapes of the arrays differ from the model")
    for name, value in trained.items():
        matrix = np.atleast_2d(value).astype(np.float64)
        largest = np.abs(matrix).max(axis=1, keepdims=True)
        # A row's scale is a multiple of 1/127 of the largest scale, rounded up.
        steps = (largest + largest.max() / _INT8_MAX) / _INT8_MAX
        wrong = ~(np.abs(np.atleast_2d(stored[name]) - matrix) <= 0.505 * steps).all(axis=1)
        if wrong.any():
            raise _broken("weights", f"{wrong.sum():,} rows of `{name}` differ from the model")


def _loss_and_gradients(weights: Weights, message: np.ndarray) -> tuple[float, Weights]:
    """Returns the mean loss of a message of ids [time], and its gradients, by TensorFlow."""
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    with tf.GradientTape() as tape:
        logits = _logits(variables, message[:-1])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(message[1:], logits)
        loss = tf.reduce_mean(losses)
    gradients = tape.gradient(loss, variables)
    return float(loss), {
        name: tf.convert_to_tensor(gradient).numpy() for name, gradient in gradients.items()
    }


def _logits(weights: Mapping[str, tf.Variable], ids: np.ndarray) -> tf.Tensor:
    """Returns logits [time, V] of ids [time] by the equations of `tff_keyboard.models.cifg`."""
    projection = weights["projection"]
    units, dim = projection.shape
    c, h, hidden = tf.zeros([1, units]), tf.zeros([1, dim]), []
    for word_id in ids:
        x = tf.gather(weights["embedding"], [word_id])
        z = x @ weights["kernel"] + h @ weights["recurrent_kernel"] + weights["bias"]
        z_i, z_g, z_o = tf.split(z, 3, axis=1)
        i = tf.sigmoid(z_i)
        c = (1 - i) * c + i * tf.tanh(z_g)
        h = (tf.sigmoid(z_o) * tf.tanh(c)) @ projection
        hidden.append(h)
    return tf.matmul(tf.concat(hidden, axis=0), weights["embedding"], transpose_b=True)


def _check_logits(predictor: KeyboardPredictor, weights: Weights, ids: np.ndarray) -> None:
    reader = Reader(predictor)
    logits = reader.read(ids).logits
    reader.report.check()
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    _check_near("logits", "the result with these weights", logits, _logits(variables, ids))


def _check_near(signature: str, what: str, actual: np.ndarray, expected: np.ndarray) -> None:
    """Checks differences relative to the largest expected value."""
    expected = np.asarray(expected)
    allowed = _TOLERANCE * max(float(np.abs(expected).max()), _TINY)
    error = np.abs(actual - expected).max()
    if not error <= allowed:
        raise _broken(signature, f"{what} is off by {error:.2g} (allowed: {allowed:.2g})")


def _broken(signature: str, what: str) -> CheckFailed:
    return CheckFailed(
        f"The signature `{signature}` of the exported file is wrong: {what}. The file is broken; "
        "report this with the command."
    )


def _name(variable: tf.Variable) -> str:
    return variable.name.split(":")[0].rsplit("/", 1)[-1]
