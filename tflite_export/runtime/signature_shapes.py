"""Checks that the signatures of a file fit its manifest and vocabulary, before the file is used.

Otherwise a wrong number in a manifest would cause an interpreter error in the middle of a text, or
words of other rows.
"""

import pathlib
from typing import Any

from tff_keyboard.storage.errors import ExportError
from tflite_export.format import signatures
from tflite_export.format.manifest_content import ManifestModel

Shapes = dict[str, list[int] | None]  # None: any


def check_shapes(
    path: pathlib.Path, step: Any, predict: Any, logits: Any, model: ManifestModel, rows: int
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
    shown: Shapes = {name: [1, model.top_k] for name in ("ids", "probabilities")}
    outputs = shown | {f"new_{name}": shape for name, shape in states.items()}
    token: Shapes = {"token": [1]}
    checks: list[tuple[str, Any, Shapes]] = [
        (signatures.STEP, step.input_shapes(), token | states),
        (signatures.LOGITS, logits.input_shapes(), {"h": states["h"]}),
        (signatures.LOGITS, logits.output_shapes(), {"logits": [1, rows]}),
        (signatures.STEP, step.output_shapes(), outputs),
        # The outputs of a loop have no shapes until it has run.
        (signatures.PREDICT, predict.input_shapes(), {"tokens": None}),
        (signatures.PREDICT, predict.output_shapes(), dict.fromkeys(outputs)),
    ]
    for name, actual, wanted in checks:
        for tensor, shape in wanted.items():
            real = actual.get(tensor)
            if real is None or (shape is not None and real != shape):
                raise ExportError(
                    f"{path}: `{tensor}` of the signature `{name}` has the shape {real}, but its "
                    f"manifest and vocabulary say {shape}. Export the model again."
                )
