"""Training on the device behind one interface: LiteRT, or libcifg where 100 MB are too many.

Both take the packed `.tflite` of a plan and speak its order of rows. The weights travel as one
vector, [parameters] float32, in the order of `signatures.WEIGHT_NAMES`.
"""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS
from tff_keyboard.storage.errors import ExportError
from tff_keyboard.wire import weights as wire_weights
from tff_keyboard.wire.plan import Plan
from tflite_export.format import signatures


class Trainer(Protocol):
    """A model that goes on training. Raises `ExportError` wherever the model's file is at fault.

    Attributes:
      fingerprint: Fingerprint of the file's vocabulary.
    """

    fingerprint: str

    def ids(self, text: str) -> list[int]:
        """A message's words as rows of the file; OOV where it has none."""

    def set_weights(self, vector: np.ndarray) -> None:
        """Begins from these; raises `ValueError` if their number is another."""

    def train(self, ids: Sequence[int], learning_rate: float) -> float:
        """One step of SGD on a sequence; its mean loss before the step, nats a target."""

    def finish(self) -> np.ndarray:
        """The weights as they are, [parameters]; the model is closed."""


class LiteRtTrainer:
    """The signatures `train`, `weights` and `set_weights` of the file, in an interpreter."""

    def __init__(self, graph: pathlib.Path):
        from tflite_export.personalisation import training_step
        from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

        self._predictor = KeyboardPredictor(graph)
        self._step = training_step.train_sequence
        self.fingerprint = self._predictor.vocabulary.fingerprint

    def ids(self, text: str) -> list[int]:
        return self._predictor.encode(self._predictor.words_of(text))[1:]

    def set_weights(self, vector: np.ndarray) -> None:
        put = self._predictor.signature(signatures.SET_WEIGHTS)
        shapes = put.input_shapes()
        parts = wire_weights.to_arrays(vector, [shapes[n] for n in signatures.WEIGHT_NAMES])
        put(**dict(zip(signatures.WEIGHT_NAMES, parts, strict=True)))

    def train(self, ids: Sequence[int], learning_rate: float) -> float:
        return self._step(self._predictor, ids, learning_rate)

    def finish(self) -> np.ndarray:
        found = self._predictor.signature(signatures.WEIGHTS)()
        del self._predictor  # 45 MB, before the arrays are joined
        return wire_weights.to_vector([found[name] for name in signatures.WEIGHT_NAMES])


class LibcifgTrainer:
    """The same by `tflite_export/native`: no interpreter, a third of the memory."""

    def __init__(self, graph: pathlib.Path, library: pathlib.Path):
        from tflite_export.format import manifest
        from tflite_export.native.libcifg import Libcifg

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
        found = list(map(self._model.weights, signatures.WEIGHT_NAMES))
        self._model.close()
        return wire_weights.to_vector(found)


@dataclasses.dataclass(frozen=True)
class Trained:
    """What a device has to tell of a round.

    Attributes:
      delta: Trained weights minus those it began with, [parameters] float32.
      weight: What the plan's `weighting` counts.
      loss: Mean loss, nats a target, as the plan's `loss` says.
      steps: Steps of all epochs.
    """

    delta: np.ndarray
    weight: float
    loss: float
    steps: int


def train(
    trainer: Trainer, initial: Callable[[], np.ndarray], texts: Sequence[str], plan: Plan
) -> Trained:
    """One round's work on a device: the plan's steps over its texts, in their order.

    `initial` reads the weights to begin with, [parameters] float32; it is called twice, so that
    they take no memory meanwhile. Raises `ExportError` if training diverges, or there is no text;
    `ValueError` if the weights do not fit the graph.
    """
    messages = [ids for text in texts if (ids := trainer.ids(text))]
    work = [[BOS, *ids, EOS][: plan.max_targets + 1] for ids in messages]
    if not work:
        raise ExportError("The texts hold no words to train on.")
    # The interpreter's buffers grow once: each growth holds the old ones too, for a moment.
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
