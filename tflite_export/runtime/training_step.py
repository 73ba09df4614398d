"""Trains one step on the device: plain SGD on one sequence, with the signature `train`."""

import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import EOS
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import signatures
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

MAX_TARGETS = 20  # of one step; the same as `data.max_length` of training


def train_message(
    predictor: KeyboardPredictor, words: Sequence[str], learning_rate: float
) -> float:
    """Runs `train_sequence` on the first targets of a message of normalised words."""
    ids = [*predictor.encode(words), EOS][: MAX_TARGETS + 1]
    return train_sequence(predictor, ids, learning_rate)


def train_sequence(predictor: KeyboardPredictor, ids: Sequence[int], learning_rate: float) -> float:
    """Makes one step of SGD and returns the mean loss before the step, in nats for each target.

    Args:
      predictor: A trainable file.
      ids: The sequence. Each id is the target after the ids before it; BOS, words and EOS make a
        whole message.
      learning_rate: Learning rate.

    Raises:
      ExportError: If the file cannot train, or the step diverged. The model cannot be used any
        more.
    """
    train = predictor.signature(signatures.TRAIN)
    with predictor.lock:  # no suggestion between the step and the reset
        out = train(
            tokens=np.array([ids], np.int32), learning_rate=np.array(learning_rate, np.float32)
        )
        predictor.reset()
    loss = float(out["loss"])
    if not math.isfinite(loss):
        raise ExportError(
            f"Training diverged with `learning_rate` = {learning_rate}. Choose a smaller one."
        )
    return loss
