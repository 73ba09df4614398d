"""Checks, before a file is used, that its signatures fit its manifest and vocabulary.

A number in a manifest is easily wrong, and what then happens is the interpreter's: an error in the
middle of a text, or words of other rows.
"""

import pathlib
from typing import Any

from tff_keyboard.storage.errors import ExportError
from tflite_export.format import signatures
from tflite_export.format.manifest_content import ModelFacts

Shapes = dict[str, list[int] | None]  # None: any


def check_shapes(
    path: pathlib.Path, step: Any, predict: Any, logits: Any, model: ModelFacts, rows: int
) -> None:
    """Compares shapes, which the file knows without running.

    Raises `ExportError` if a signature does not fit; says which one.
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
        # A loop's outputs have their shapes when it has run.
        (signatures.PREDICT, predict.input_shapes(), {"tokens": None}),
        (signatures.PREDICT, predict.output_shapes(), dict.fromkeys(outputs)),
    ]
    for name, found, wanted in checks:
        for tensor, shape in wanted.items():
            real = found.get(tensor)
            if real is None or (shape is not None and real != shape):
                raise ExportError(
                    f"{path}: `{tensor}` of the signature `{name}` has the shape {real}, but its "
                    f"manifest and vocabulary say {shape}. Export the model again."
                )
