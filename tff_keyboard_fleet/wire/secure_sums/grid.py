"""Converts deltas to integers and back: clipped, then rounded towards zero.

Rounding towards zero never lengthens a vector. `distribution = "discrete"` does the same
(`tff_keyboard/aggregators/private/noised_sum.py`). `tff_keyboard_fleet/on_devices/secure_grid.py`
derives the grid from a config.
"""

import numpy as np


def to_grid(delta: np.ndarray, *, clip_norm: float, step: float) -> np.ndarray:
    """Returns a float delta [size] in steps, int64. A delta that is not finite gives zeros."""
    exact = delta.astype(np.float64)
    norm = float(np.linalg.norm(exact))
    if not np.isfinite(norm):
        return np.zeros(delta.shape, np.int64)
    scale = (
        clip_norm * (1 - 1e-12) / norm if norm > clip_norm else 1.0
    )  # 1e-12: float rounding must not make it longer
    return np.trunc(exact * (scale / step)).astype(np.int64)


def from_grid(total: np.ndarray, *, step: float) -> np.ndarray:
    """Returns a sum modulo 2^bits as [size] float64. The upper half stands for negative numbers."""
    signed = np.dtype(f"<i{total.dtype.itemsize}")
    return total.view(signed).astype(np.float64) * step
