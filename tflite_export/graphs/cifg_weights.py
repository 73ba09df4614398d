"""The trained weights of a CIFG, one matrix for each gate and input.

    z_g = x W_g + h R_g + b_g     for the gates g = input, candidate, output

Training stores the three gates in one matrix and multiplies once. A quantised file is more accurate
with six matrices: each has its own scale, and the activations x and h have their own as well. The
size is the same, and the logit error is a third lower (docs/phone/export.md).
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from tff_keyboard.models import NextWordModel
from tff_keyboard.storage.errors import ExportError

GATES = ("input", "candidate", "output")


@dataclasses.dataclass(frozen=True)
class CifgWeights:
    """Weights of a CIFG, as float32 arrays."""

    embedding: np.ndarray  # [vocabulary, dim]; also the output table
    kernels: tuple[np.ndarray, ...]  # W of each gate, [dim, units]
    recurrent_kernels: tuple[np.ndarray, ...]  # R of each gate, [dim, units]
    biases: tuple[np.ndarray, ...]  # b of each gate, [units]
    projection: np.ndarray  # [units, dim]

    @property
    def vocabulary_size(self) -> int:
        """V, the number of rows of the table."""
        return self.embedding.shape[0]

    @property
    def dim(self) -> int:
        """D, the width of a row of the table."""
        return self.embedding.shape[1]

    @property
    def units(self) -> int:
        """U, the number of units of the layer."""
        return self.projection.shape[0]

    @classmethod
    def from_model(cls, model: NextWordModel) -> "CifgWeights":
        """Reads the weights of a built model.

        Raises:
          ExportError: If the model is not a CIFG, or a weight is not finite.
        """
        name = getattr(model, "name_in_registry", type(model).__name__)
        if name != "cifg":
            raise ExportError(
                f"`model.type` must be 'cifg' to be exported, got {name!r}: only the CIFG "
                "model has TFLite graphs. Train with `model.type` = 'cifg'."
            )
        named = {
            variable.name.split(":")[0].rsplit("/", 1)[-1]: variable.numpy()
            for variable in model.trainable_variables
        }
        check_finite(named)
        return cls(
            embedding=np.asarray(model.output_table[0]),  # as the model reads it
            kernels=_per_gate(named["kernel"]),
            recurrent_kernels=_per_gate(named["recurrent_kernel"]),
            biases=_per_gate(named["bias"]),
            projection=named["projection"],
        )


def check_finite(weights: Mapping[str, np.ndarray]) -> None:
    """Raises `ExportError` if a weight is not finite, with its name."""
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise ExportError(
                f"The weight `{name}` has NaN or infinity: training diverged. Export an "
                "earlier checkpoint."
            )


def _per_gate(joined: np.ndarray) -> tuple[np.ndarray, ...]:
    """Splits [..., 3 units] into three contiguous arrays [..., units], in the order of `GATES`."""
    parts = np.split(joined, len(GATES), axis=-1)
    return tuple(np.ascontiguousarray(part) for part in parts)
