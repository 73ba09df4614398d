"""Trains on the device behind one interface: LiteRT, or libcifg if 100 MB are too much.

Both take the packed `.tflite` of a plan and use its order of rows. The weights are one vector,
[parameters] float32, in the order of `signatures.WEIGHT_NAMES`.
"""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS
from tff_keyboard.storage.errors import ExportError
from tff_keyboard_fleet.wire import weights as wire_weights
from tff_keyboard_fleet.wire.plan import Plan
from tflite_export.format import signatures


class Trainer(Protocol):
    """A model that can be trained. All methods raise `ExportError` if the model's file is at fault.

    Attributes:
      fingerprint: Fingerprint of the file's vocabulary.
    """

    fingerprint: str

    def ids(self, text: str) -> list[int]:
        """Returns a message's words as rows of the file; OOV for unknown words."""

    def set_weights(self, vector: np.ndarray) -> None:
        """Sets the initial weights. Raises `ValueError` if their number is wrong."""

    def train(self, ids: Sequence[int], learning_rate: float) -> float:
        """Makes one step of SGD on a sequence.

        Returns the mean loss before the step, in nats a target.
        """

    def finish(self) -> np.ndarray:
        """Returns the current weights, [parameters], and closes the model."""


class LiteRtTrainer:
    """A trainer that runs the training signatures of the file in an interpreter."""

    def __init__(self, graph: pathlib.Path):
        from tflite_export.runtime import training_step
        from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

        self.predictor = KeyboardPredictor(graph)
        self._step = training_step.train_sequence
        self.fingerprint = self.predictor.vocabulary.fingerprint

    def ids(self, text: str) -> list[int]:
        return self.predictor.encode(self.predictor.words_of(text))[1:]

    def set_weights(self, vector: np.ndarray) -> None:
        put = self.predictor.signature(signatures.SET_WEIGHTS)
        shapes = put.input_shapes()
        parts = wire_weights.to_arrays(vector, [shapes[n] for n in signatures.WEIGHT_NAMES])
        put(**dict(zip(signatures.WEIGHT_NAMES, parts, strict=True)))

    def train(self, ids: Sequence[int], learning_rate: float) -> float:
        return self._step(self.predictor, ids, learning_rate)

    def finish(self) -> np.ndarray:
        arrays = self.predictor.signature(signatures.WEIGHTS)()
        del self.predictor  # frees 45 MB before the arrays are joined
        return wire_weights.to_vector([arrays[name] for name in signatures.WEIGHT_NAMES])


class LibcifgTrainer:
    """A trainer that runs `libcifg`: no interpreter, a third of the memory."""

    def __init__(self, graph: pathlib.Path, library: pathlib.Path):
        from tflite_export.format import manifest
        from tflite_export.runtime.libcifg import Libcifg

        self.fingerprint = manifest.load_checked(graph)[1].fingerprint
        self._model = Libcifg(library, graph)

    def ids(self, text: str) -> list[int]:
        return list(map(self._model.id_of, self._model.tokens(text)))

    def set_weights(self, vector: np.ndarray) -> None:
        sizes = [[self._model.size_of(name)] for name in signatures.WEIGHT_NAMES]
        parts = wire_weights.to_arrays(vector, sizes)
        for name, part in zip(signatures.WEIGHT_NAMES, parts, strict=True):
            self._model.set_weights(name, part)

    def train(self, ids: Sequence[int], learning_rate: float) -> float:
        loss = self._model.train(ids, learning_rate)
        if not math.isfinite(loss):
            raise ExportError(f"Training diverged with `learning_rate` = {learning_rate}.")
        return loss

    def finish(self) -> np.ndarray:
        arrays = list(map(self._model.weights, signatures.WEIGHT_NAMES))
        self._model.close()
        return wire_weights.to_vector(arrays)


@dataclasses.dataclass(frozen=True)
class Trained:
    """The result of a device's training in a round.

    Attributes:
      delta: Trained weights minus the initial weights, [parameters] float32.
      weight: Weight by the plan's `weighting`.
      loss: Mean loss in nats a target, as the plan's `loss` defines.
      steps: Number of steps of all epochs.
    """

    delta: np.ndarray
    weight: float
    loss: float
    steps: int


def train(
    trainer: Trainer, initial: Callable[[], np.ndarray], texts: Sequence[str], plan: Plan
) -> Trained:
    """Does one round's work on a device: the plan's steps over its texts, in their order.

    Args:
      trainer: The model.
      initial: Reads the initial weights, [parameters] float32. It is called twice, so that they
        take no memory during training.
      texts: Messages, oldest first.
      plan: The plan.

    Raises:
      ExportError: If training diverges, or the texts have no words.
      ValueError: If the weights do not fit the graph.
    """
    messages = [ids for text in texts if (ids := trainer.ids(text))]
    work = [[BOS, *ids, EOS][: plan.max_targets + 1] for ids in messages]
    if not work:
        raise ExportError("The texts have no words to train on.")
    # Makes the interpreter's buffers grow only once, because the old ones exist during a growth.
    trainer.train(max(work, key=len), 0.0)
    trainer.set_weights(initial())
    targets = sum(len(sequence) - 1 for sequence in work)
    total = 0.0
    for _ in range(plan.epochs):
        total += sum(trainer.train(s, plan.learning_rate) * (len(s) - 1) for s in work)
    if plan.loss == "after_training":
        total = plan.epochs * sum(trainer.train(s, 0.0) * (len(s) - 1) for s in work)
    delta = trainer.finish()
    delta -= initial()
    norm = float(np.linalg.norm(delta))
    if not math.isfinite(norm):
        raise ExportError(f"Training diverged with `learning_rate` = {plan.learning_rate}.")
    if plan.clip is not None and norm > plan.clip:
        delta *= np.float32(plan.clip / norm)
    counts = {"tokens": plan.epochs * targets, "examples": plan.epochs * len(work), "uniform": 1}
    loss = total / (plan.epochs * targets)
    return Trained(delta, float(counts[plan.weighting]), loss, plan.epochs * len(work))
