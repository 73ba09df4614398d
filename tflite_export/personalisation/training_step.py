"""One step of training on the device: plain SGD on one sequence, by the signature `train`."""

import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import EOS
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import signatures
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

MAX_TARGETS = 20  # of one step, as `data.max_length` of training


def train_message(
    predictor: KeyboardPredictor, words: Sequence[str], learning_rate: float
) -> float:
    """`train_sequence` on the first targets of a message of normalised words."""
    ids = [*predictor.encode(words), EOS][: MAX_TARGETS + 1]
    return train_sequence(predictor, ids, learning_rate)


def train_sequence(predictor: KeyboardPredictor, ids: Sequence[int], learning_rate: float) -> float:
    """One step of SGD; returns the sequence's mean loss before the step, in nats a target.

    Each id is the target behind those before it: BOS, words and EOS make a whole message. Raises
    `ExportError` if the file cannot train, or the step diverged; the model is then of no more use.
    """
    train = predictor.signature(signatures.TRAIN)
    out = train(tokens=np.array([ids], np.int32), learning_rate=np.array(learning_rate, np.float32))
    predictor.reset()
    loss = float(out["loss"])
    if not math.isfinite(loss):
        raise ExportError(
            f"Training diverged with `learning_rate` = {learning_rate}. Choose a smaller one."
        )
    return loss
