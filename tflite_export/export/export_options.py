"""Options of an export, and the size limits of its files."""

import dataclasses

from tff_keyboard.storage.errors import ExportError

QUANTIZATIONS = ("auto", "int8", "int8-rows", "none")

# Limits of the model file, without a packed vocabulary: the goal of the project at V = 10,000.
MAX_BYTES = {"int8": 1_450_000, "int8-rows": 1_450_000}
MAX_TRAINABLE_BYTES = 1_500_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of an export.

    >>> ExportOptions(top_k=5).quantization
    'int8-rows'

    Attributes:
      quantization: One of `QUANTIZATIONS`; see `for_model`.
      top_k: Number of words that `predict` and `step` return, >= 1.
      max_bytes: Size limit of the model file. 0 takes the limit in `MAX_BYTES`; float files have
        none.
      trainable: Whether the file can be trained on the device (float32 in memory).
      pack: Whether vocabulary and manifest are packed into the model file as associated files.
      allow_loss: Whether a failed parity gate is reported instead of raised.
      allow_little_text: Whether the parity gate may decide on less text than `parity.ENOUGH_TEXT`.
        The manifest then says so.
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
        if self.trainable and self.quantization not in ("auto", "int8-rows"):
            raise ExportError(
                "`trainable` requires `quantize` = 'int8-rows', the format of its initial values, "
                f"got {self.quantization!r}. Leave one of them out."
            )
        if self.top_k < 1:
            raise ExportError(f"`top_k` must be >= 1, got {self.top_k}.")
        if self.max_bytes < 0:
            raise ExportError(f"`max_bytes` must be >= 0, got {self.max_bytes}.")

    def for_model(self, name: str) -> "ExportOptions":
        """Returns the options for a model of this name, without "auto".

        "auto" is "int8-rows" for the CIFG, and "int8", by the converter, for other models.

        Raises:
          ExportError: If the model has no such file.
        """
        if name == "cifg":
            is_auto = self.quantization == "auto"
            return dataclasses.replace(self, quantization="int8-rows") if is_auto else self
        if self.trainable:
            raise ExportError(
                f"`trainable` requires `model.type` = 'cifg', got {name!r}: only the CIFG has "
                "signatures for training on a device. Leave it out."
            )
        if self.quantization == "int8-rows":
            raise ExportError(
                f"`quantize` = 'int8-rows' requires `model.type` = 'cifg', got {name!r}. Use "
                "'auto', 'int8' or 'none'."
            )
        is_auto = self.quantization == "auto"
        return dataclasses.replace(self, quantization="int8") if is_auto else self

    @property
    def byte_limit(self) -> int | None:
        """`max_bytes`, or the limit of this kind of file; None if there is no limit."""
        default = MAX_TRAINABLE_BYTES if self.trainable else MAX_BYTES.get(self.quantization)
        return self.max_bytes or default
