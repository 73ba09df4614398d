"""Quantises weights to int8 and int4, in NumPy.

Two layouts:

  per tensor   w ~ scale * q                          one float for the matrix
  per row      w[r] ~ base * code[r] * q[r]           one byte `code` a row

TensorFlow Lite has per-channel scales of its own, but they cost 12 bytes a row, and TF 2.14's
hybrid kernels multiply by zero instead of refusing them. A code of one byte a row is an ordinary
tensor that an ordinary MUL applies.
"""

import dataclasses

import numpy as np

INT4_MAX = 7
INT8_MAX = 127
_TINY = float(np.finfo(np.float32).tiny)  # scale of an all-zero matrix


@dataclasses.dataclass(frozen=True)
class TensorQuantized:
    """`values` int8 of any shape; the matrix is `scale * values`."""

    values: np.ndarray
    scale: float

    def dequantized(self) -> np.ndarray:
        """The matrix, float32."""
        return np.float32(self.scale) * self.values.astype(np.float32)


@dataclasses.dataclass(frozen=True)
class RowQuantized:
    """Row r of the matrix is `base * codes[r] * values[r]`."""

    values: np.ndarray  # [rows, columns] int8, in [-limit, limit] with limit 127 or 7
    codes: np.ndarray  # [rows] int8 in [1, 127]
    base: float  # scale of a code of 1

    def scales(self) -> np.ndarray:
        """[rows] float32."""
        return np.float32(self.base) * self.codes.astype(np.float32)  # [rows]

    def dequantized(self) -> np.ndarray:
        """The matrix [rows, columns], float32."""
        return self.scales()[:, np.newaxis] * self.values.astype(np.float32)


def quantize_tensor(matrix: np.ndarray) -> TensorQuantized:
    """One scale, symmetric: the largest magnitude becomes 127.

    >>> quantized = quantize_tensor(np.array([[0.5, -1.27]], np.float32))
    >>> quantized.values.tolist(), round(quantized.scale, 6)
    ([[50, -127]], 0.01)
    """
    scale = max(float(np.abs(matrix).max(initial=0.0)) / INT8_MAX, _TINY)
    return TensorQuantized(_rounded(matrix / scale, INT8_MAX), scale)


def quantize_rows(matrix: np.ndarray) -> RowQuantized:
    """int8 [rows, columns] with one scale a row. Codes are rounded up, so nothing is clipped."""
    scales = np.abs(matrix).max(axis=1, initial=0.0) / INT8_MAX
    base = max(float(scales.max(initial=0.0)) / 127, _TINY)
    # 1e-4: the row that sets `base` must get code 127 in spite of float rounding, not 128.
    codes = np.clip(np.ceil(scales / base - 1e-4), 1, 127)
    values = _rounded(matrix / (codes * base)[:, np.newaxis], INT8_MAX)
    return RowQuantized(values, codes.astype(np.int8), base)


def quantize_rows_int4(
    matrix: np.ndarray, covariance: np.ndarray, *, damping: float = 0.1
) -> RowQuantized:
    """int4 with one scale a row, each rounding error made up for by the columns still to come.

    What matters is the error of the logits, `h . (w - q)`, whose mean square over real text is
    `(w - q) C (w - q)^T` with `C = E[h^T h]`. Columns are rounded one after the other, those with
    the most energy first; the error of one is spread over the later ones so that this quadratic
    form grows least. Source: Frantar et al. 2022 (GPTQ), https://arxiv.org/abs/2210.17323, eq. 2-3.

    `matrix` is the output table [rows, columns], `covariance` [columns, columns] the sum of h^T h
    over calibration text, of any scale; values of the result are in [-7, 7]. `damping` > 0 is the
    weight of the identity beside the covariance (trace / columns = 1); it stands for the table's
    other use, the embedding lookup, where all columns matter alike.
    """
    rows, columns = matrix.shape
    if covariance.shape != (columns, columns):
        raise ValueError(f"`covariance` must be [{columns}, {columns}], got {covariance.shape}.")
    energy = float(np.trace(covariance))
    metric = damping * np.eye(columns)
    if energy > 0:
        metric = metric + covariance.astype(np.float64) * (columns / energy)
    scales = _least_squares_scales(matrix, INT4_MAX)
    base = max(float(scales.max(initial=0.0)) / 127, _TINY)
    codes = np.clip(np.round(scales / base), 1, 127)
    scales = codes * base

    order = np.argsort(-np.diag(metric), kind="stable")
    # Upper factor of the inverse: row j holds how an error in column j is best spread to the right.
    spread = np.linalg.cholesky(np.linalg.inv(metric[np.ix_(order, order)])).T
    remaining = matrix[:, order].astype(np.float64)
    values = np.zeros((rows, columns), np.int8)
    for step, column in enumerate(order):
        values[:, column] = _rounded(remaining[:, step] / scales, INT4_MAX)
        error = (remaining[:, step] - values[:, column] * scales) / spread[step, step]
        remaining[:, step + 1 :] -= np.outer(error, spread[step, step + 1 :])
    return RowQuantized(values, codes.astype(np.int8), base)


def pack_int4(values: np.ndarray) -> np.ndarray:
    """Two values a byte, the first in the low four bits, as TFLite's INT4 does.

    >>> pack_int4(np.array([1, -1, 7, -7], np.int8)).tolist()
    [241, 151]
    """
    flat = values.reshape(-1).astype(np.uint8)
    if flat.size % 2:
        raise ValueError(f"An even number of int4 values is needed, got {flat.size}.")
    return (flat[0::2] & 0x0F) | ((flat[1::2] & 0x0F) << 4)


def _rounded(ratios: np.ndarray, limit: int) -> np.ndarray:
    return np.clip(np.round(ratios), -limit, limit).astype(np.int8)


def _least_squares_scales(matrix: np.ndarray, limit: int) -> np.ndarray:
    """Per row, the scale in [0.5, 1] * largest / limit with the least squared rounding error."""
    largest = np.abs(matrix).max(axis=1, initial=0.0) / limit
    largest = np.maximum(largest, _TINY)
    best_scales = largest
    best_errors = np.full(len(matrix), np.inf)
    for fraction in np.linspace(0.5, 1.0, 26):
        scales = largest * fraction
        approximation = _rounded(matrix / scales[:, np.newaxis], limit) * scales[:, np.newaxis]
        errors = np.square(approximation - matrix).sum(axis=1)
        better = errors < best_errors
        best_errors = np.where(better, errors, best_errors)
        best_scales = np.where(better, scales, best_scales)
    return best_scales
