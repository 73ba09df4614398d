"""Converts deltas to integers and back: clipped, then rounded towards zero.

Rounding towards zero never lengthens a vector, so the integers of a device have an L2 norm of at
most `clip_norm` / `step`, also with the rounding errors of float64: NumPy adds squares pairwise,
with a relative error below 1e-14 for any vector in memory (Higham 2002, section 4.2), and vectors
keep a distance of 1e-12 from the bound. The privacy accounting rests on this
(`tff_keyboard/privacy/mechanisms/sum_grid.py`). `distribution = "discrete"` does the same
(`tff_keyboard/aggregators/private/noised_sum.py`). `tff_keyboard_fleet/on_devices/secure_grid.py`
derives the grid from a config.
"""

import math

import numpy as np

_MAX_STEPS = 2.0**62  # per clip norm, so that no number is near the bounds of int64
_INSIDE = 1 - 1e-12


def to_grid(delta: np.ndarray, *, clip_norm: float, step: float) -> np.ndarray:
    """Returns a float delta [size] in steps, int64. A delta that is not finite gives zeros.

    Raises:
      ValueError: If a number of a clipped delta may be out of the range of int64. NumPy would turn
        all such numbers into the same one, so that a sum would show the others.
    """
    is_positive = all(math.isfinite(value) and value > 0 for value in (clip_norm, step))
    if not is_positive or clip_norm / step > _MAX_STEPS:
        raise ValueError(
            f"`clip_norm` and `step` must be > 0 and `clip_norm` / `step` <= {_MAX_STEPS:g}, got "
            f"{clip_norm:g} and {step:g}."
        )
    exact = delta.astype(np.float64)
    norm = math.sqrt(np.sum(np.square(exact)))
    if not np.isfinite(norm):
        return np.zeros(delta.shape, np.int64)
    bound = clip_norm * _INSIDE
    scale = bound / norm if norm > bound else 1.0
    # In this order, because `scale / step` may overflow, and 0 times infinity is not a number.
    return np.trunc(exact * scale / step).astype(np.int64)


def from_grid(total: np.ndarray, *, step: float) -> np.ndarray:
    """Returns a sum modulo 2^bits as [size] float64. The upper half stands for negative numbers."""
    signed = np.dtype(f"<i{total.dtype.itemsize}")
    return total.view(signed).astype(np.float64) * step
