"""Deltas as integers and back: clipped, then rounded towards zero, which lengthens none.

As `distribution = "discrete"` does (`federated/aggregation/private/noised_sum.py`); the grid of a
config is `config/secure_grid.py`.
"""

import numpy as np


def to_grid(delta: np.ndarray, *, clip_norm: float, step: float) -> np.ndarray:
    """[size] int64 steps of a [size] float delta; zeros of one that is not finite."""
    exact = delta.astype(np.float64)
    norm = float(np.linalg.norm(exact))
    if not np.isfinite(norm):
        return np.zeros(delta.shape, np.int64)
    scale = clip_norm * (1 - 1e-12) / norm if norm > clip_norm else 1.0  # never longer by rounding
    return np.trunc(exact * (scale / step)).astype(np.int64)


def from_grid(total: np.ndarray, *, step: float) -> np.ndarray:
    """[size] float64 of a sum modulo 2^bits, whose upper half stands for negative numbers."""
    signed = np.dtype(f"<i{total.dtype.itemsize}")
    return total.view(signed).astype(np.float64) * step
