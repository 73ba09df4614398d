"""How a model is exported, and how large it may become."""

import dataclasses

from tff_keyboard.storage.errors import ExportError

QUANTIZATIONS = ("int8", "int8-rows", "int4-rows", "float16", "none")

# Of the files a phone gets, without a packed vocabulary. Goal of the project at V = 10,000.
MAX_BYTES = {"int8": 1_450_000, "int8-rows": 1_450_000, "int4-rows": 1_000_000}
MAX_TRAINABLE_BYTES = 1_500_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How to export.

    Attributes:
      quantization: One of `QUANTIZATIONS`.
      top_k: Words that `predict` and `step` return, >= 1.
      max_bytes: Limit of the model file; 0 takes `MAX_BYTES`, which knows none for float files.
      trainable: Whether the file can go on training on the device (float32 in memory).
      pack: Whether vocabulary and manifest go into the model file as associated files.
      allow_loss: Whether a failed parity gate is reported and forgiven.
      allow_little_text: Whether the parity gate may decide on less text than
        `parity.ENOUGH_TEXT`, which the manifest then says.
    """

    quantization: str = "int8-rows"
    top_k: int = 3
    max_bytes: int = 0
    trainable: bool = False
    pack: bool = False
    allow_loss: bool = False
    allow_little_text: bool = False

    def __post_init__(self) -> None:
        if self.quantization not in QUANTIZATIONS:
            raise ExportError(
                f"`quantize` must be one of {', '.join(QUANTIZATIONS)}, got {self.quantization!r}."
            )
        if self.trainable and self.quantization != "int8-rows":
            raise ExportError(
                "`trainable` needs `quantize` = 'int8-rows', which its initial values are stored "
                f"as, got {self.quantization!r}. Leave one of them out."
            )
        if self.top_k < 1:
            raise ExportError(f"`top_k` must be >= 1, got {self.top_k}.")
        if self.max_bytes < 0:
            raise ExportError(f"`max_bytes` must be >= 0, got {self.max_bytes}.")

    @property
    def byte_limit(self) -> int | None:
        """`max_bytes`, or what this kind of file may have; None: any size."""
        default = MAX_TRAINABLE_BYTES if self.trainable else MAX_BYTES.get(self.quantization)
        return self.max_bytes or default
