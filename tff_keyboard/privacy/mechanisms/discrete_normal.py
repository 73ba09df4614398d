"""Draws from the discrete Gaussian, on a grid that a computer can represent exactly.

    P(k) proportional to exp(-k^2 / (2 s^2)),   k an integer,   s = 2^bits steps of the grid

A continuous Gaussian in float64 lies on a grid whose steps reveal its size (Mironov 2012). Here sum
and noise are integers. The sampler is from Canonne et al., with s a power of two: uniform bits
and a geometric variable make a discrete Laplace, which is accepted with probability exp(-(|k| / s -
1)^2 / 2). Each Bernoulli compares logarithms of uniforms with 52 bits however small they are, so
each probability is correct to about 2^-49 relative. With 1.4 million coordinates and 2,000 rounds
this changes epsilon by less than 2e-5.

Source: Canonne, Kamath & Steinke 2020, Algorithms 2 and 3, https://arxiv.org/abs/2004.00010.
"""

import numpy as np

from tff_keyboard.privacy.mechanisms.keyed_normal import keyed_uint64, log_uniform

BITS = 20  # a standard deviation has 2^20 steps, so rounding is far below the noise

# A draw takes 1.3 tries on average, and never this many for any size that fits in memory.
_MAX_TRIES = 400


def keyed_discrete_normal(key: bytes, label: str, size: int, *, bits: int = BITS) -> np.ndarray:
    """Returns discrete Gaussian draws with standard deviation 1, as multiples of 2^-bits.

    Depends only on the arguments.

    Args:
      key: 32 bytes.
      label: Distinguishes draws with the same key.
      size: Number of draws.
      bits: log2 of the standard deviation in steps of the grid, 0..30.

    Returns:
      [size] float64.
    """
    if not 0 <= bits <= 30:
        raise ValueError(f"`bits` must be in 0..30, got {bits}.")
    scale = 1 << bits
    result = np.empty(size)
    missing = np.arange(size)
    for number in range(_MAX_TRIES):
        if not len(missing):
            return result / scale
        steps, accepted = _try(key, f"{label} try {number}", len(missing), scale)
        result[missing[accepted]] = steps[accepted]
        missing = missing[~accepted]
    raise AssertionError("the sampler does not accept")


def _try(key: bytes, label: str, size: int, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns candidates in steps (float64, whole numbers), and a mask of the accepted ones."""
    bits = keyed_uint64(key, f"{label} bits", size)
    low = (bits % np.uint64(scale)).astype(np.float64)  # exact: a power of two
    is_negative = (bits >> np.uint64(63)).astype(bool)
    high = np.floor(-_logs(key, f"{label} geometric", size))
    magnitude = low + scale * high
    # Discrete Laplace: accepts low with probability exp(-low / scale), and only one of the two
    # zeros.
    accepted = -_logs(key, f"{label} laplace", size) > low / scale
    accepted &= ~(is_negative & (magnitude == 0))
    accepted &= -_logs(key, f"{label} normal", size) > (magnitude / scale - 1) ** 2 / 2
    return np.where(is_negative, -magnitude, magnitude), accepted


def _logs(key: bytes, label: str, size: int) -> np.ndarray:
    return log_uniform(keyed_uint64(key, label, size), key, f"{label} tail")
