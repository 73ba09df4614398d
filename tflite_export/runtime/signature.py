"""A signature of a `.tflite` file, and the check that all fit its manifest and vocabulary.

Without the check, a wrong number in a manifest would cause an interpreter error in the middle of a
text, or words of other rows.
"""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tff_keyboard.predictors.locking import Lock
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import signatures
from tflite_export.format.manifest_content import ManifestModel
from tflite_export.runtime.interpreters import first_line

Shapes = dict[str, list[int] | None]  # None: any


class Signature:
    """A signature of a file, called with arrays.

    An interpreter is not thread-safe: calls from two threads at a time end the process. So every
    call holds the lock of the interpreter.

    Args:
      path: The file, for messages.
      name: Name of the signature.
      interpreter: The interpreter of the file.
      lock: Lock of the interpreter, the same for all of its signatures.

    Raises:
      ExportError: If the interpreter rejects a call.
    """

    def __init__(self, path: pathlib.Path, name: str, interpreter: Any, lock: Lock):
        self._path = path
        self._name = name
        self._lock = lock
        with self._errors_named():
            self._runner = interpreter.get_signature_runner(name)

    def input_shapes(self) -> dict[str, list[int]]:
        """Returns the shape of each input."""
        with self._errors_named():
            details = self._runner.get_input_details()
        return {name: detail["shape"].tolist() for name, detail in details.items()}

    def output_shapes(self) -> dict[str, list[int]]:
        """Returns the shape of each output."""
        with self._errors_named():
            details = self._runner.get_output_details()
        return {name: detail["shape"].tolist() for name, detail in details.items()}

    def __call__(self, **inputs: np.ndarray | np.generic) -> dict[str, np.ndarray]:
        """Runs the signature and returns its outputs by name."""
        with self._errors_named():
            return self._runner(**inputs)

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Locks the interpreter for a block. Its errors become `ExportError`s of this file."""
        try:
            with self._lock:
                yield
        except (RuntimeError, ValueError) as error:
            raise ExportError(
                f"{self._path}: the interpreter cannot run `{self._name}` ({first_line(error)}). "
                "Export the model again."
            ) from None


def check_shapes(
    path: pathlib.Path,
    step: Signature,
    predict: Signature,
    logits: Signature,
    model: ManifestModel,
    rows: int,
) -> None:
    """Compares the shapes of signatures, which the file knows without running.

    Args:
      path: The file, for messages.
      step: The signature `step`.
      predict: The signature `predict`.
      logits: The signature `logits`.
      model: Facts of the manifest.
      rows: Number of rows of the vocabulary.

    Raises:
      ExportError: If a signature does not fit. The message names it.
    """
    states: Shapes = {"c": [1, model.state_sizes.c], "h": [1, model.state_sizes.h]}
    strips: Shapes = {name: [1, model.top_k] for name in ("ids", "probabilities")}
    outputs = strips | {f"new_{name}": shape for name, shape in states.items()}
    token: Shapes = {"token": [1]}
    checks: list[tuple[str, dict[str, list[int]], Shapes]] = [
        (signatures.STEP, step.input_shapes(), token | states),
        (signatures.LOGITS, logits.input_shapes(), {"h": states["h"]}),
        (signatures.LOGITS, logits.output_shapes(), {"logits": [1, rows]}),
        (signatures.STEP, step.output_shapes(), outputs),
        # The outputs of a loop have no shapes until it has run.
        (signatures.PREDICT, predict.input_shapes(), {"tokens": None}),
        (signatures.PREDICT, predict.output_shapes(), dict.fromkeys(outputs)),
    ]
    for name, actual, expected_shapes in checks:
        for tensor, shape in expected_shapes.items():
            shape_in_file = actual.get(tensor)
            if shape_in_file is None or (shape is not None and shape_in_file != shape):
                raise ExportError(
                    f"{path}: `{tensor}` of the signature `{name}` has the shape "
                    f"{shape_in_file}, but its manifest and vocabulary say {shape}. Export the "
                    "model again."
                )
