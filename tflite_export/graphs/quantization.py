"""Quantises weights to int8, in NumPy.

There are two layouts:

  per tensor   w ~ scale * q                          one float for the matrix
  per row      w[r] ~ base * code[r] * q[r]           one byte `code` for each row

TensorFlow Lite has its own per-channel scales, but they cost 12 bytes a row, and TF 2.14's hybrid
kernels multiply by zero instead of rejecting them. Codes of one byte a row are an ordinary tensor,
which an ordinary MUL applies.
"""

import dataclasses

import numpy as np

INT8_MAX = 127
_TINY = float(np.finfo(np.float32).tiny)  # scale of an all-zero matrix


@dataclasses.dataclass(frozen=True)
class TensorQuantized:
    """A matrix with one scale: `scale * values`, where `values` is int8 of any shape."""

    values: np.ndarray
    scale: float

    def dequantized(self) -> np.ndarray:
        """Returns the matrix, float32."""
        return np.float32(self.scale) * self.values.astype(np.float32)


@dataclasses.dataclass(frozen=True)
class RowQuantized:
    """A matrix with one scale a row. Row r is `base * codes[r] * values[r]`."""

    values: np.ndarray  # [rows, columns] int8, in [-127, 127]
    codes: np.ndarray  # [rows] int8 in [1, 127]
    base: float  # scale of a code of 1

    def scales(self) -> np.ndarray:
        """Returns the scale of each row, [rows] float32."""
        return np.float32(self.base) * self.codes.astype(np.float32)

    def dequantized(self) -> np.ndarray:
        """Returns the matrix [rows, columns], float32."""
        return self.scales()[:, np.newaxis] * self.values.astype(np.float32)


def quantize_tensor(matrix: np.ndarray) -> TensorQuantized:
    """Quantises with one symmetric scale: the largest magnitude becomes 127.

    >>> quantized = quantize_tensor(np.array([[0.5, -1.27]], np.float32))
    >>> quantized.values.tolist(), round(quantized.scale, 6)
    ([[50, -127]], 0.01)
    """
    scale = max(float(np.abs(matrix).max(initial=0.0)) / INT8_MAX, _TINY)
    return TensorQuantized(_rounded(matrix / scale), scale)


def quantize_rows(matrix: np.ndarray) -> RowQuantized:
    """Quantises to int8 [rows, columns] with one scale a row.

    Codes are rounded up, so that no value is clipped.
    """
    scales = np.abs(matrix).max(axis=1, initial=0.0) / INT8_MAX
    base = max(float(scales.max(initial=0.0)) / 127, _TINY)
    # 1e-4: despite float rounding, the row that sets `base` must get code 127, not 128.
    codes = np.clip(np.ceil(scales / base - 1e-4), 1, 127)
    values = _rounded(matrix / (codes * base)[:, np.newaxis])
    return RowQuantized(values, codes.astype(np.int8), base)


def _rounded(ratios: np.ndarray) -> np.ndarray:
    return np.clip(np.round(ratios), -INT8_MAX, INT8_MAX).astype(np.int8)
