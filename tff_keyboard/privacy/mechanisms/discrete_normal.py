"""Draws of the discrete Gaussian, a distribution on a grid that a computer can hold exactly.

    P(k) proportional to exp(-k^2 / (2 s^2)),   k an integer,   s = 2^bits steps of the grid

A continuous Gaussian in doubles sits on a grid whose steps betray its size (Mironov 2012); here sum
and noise are integers. Sampled as Canonne et al. do, with s a power of two: uniform bits and a
geometric make a discrete Laplace, which is accepted with probability exp(-(|k| / s - 1)^2 / 2).
Each Bernoulli compares logarithms of uniforms that keep 52 bits however small they are, so each
probability is right to about 2^-49 relative: with 1.4 million coordinates and 2,000 rounds that
moves epsilon by less than 2e-5.

Source: Canonne, Kamath & Steinke 2020, Algorithms 2 and 3, https://arxiv.org/abs/2004.00010.
"""

import numpy as np

from tff_keyboard.privacy.mechanisms.keyed_normal import keyed_uint64, log_uniform

BITS = 20  # a standard deviation is 2^20 steps: rounding to the grid is lost in the noise

# Of 1.3 tries that a draw takes, none needs more than this for any size that fits in memory.
_MOST_TRIES = 400


def keyed_discrete_normal(key: bytes, label: str, size: int, *, bits: int = BITS) -> np.ndarray:
    """[size] float64, whole multiples of 2^-bits: discrete Gaussians of standard deviation 1.

    A pure function of its arguments: a key of 32 bytes, a label that tells draws apart, and the
    log2 of the standard deviation in steps of the grid, 0..30.
    """
    if not 0 <= bits <= 30:
        raise ValueError(f"`bits` must be in 0..30, got {bits}.")
    scale = 1 << bits
    result = np.empty(size)
    missing = np.arange(size)
    for number in range(_MOST_TRIES):
        if not len(missing):
            return result / scale
        steps, accepted = _try(key, f"{label} try {number}", len(missing), scale)
        result[missing[accepted]] = steps[accepted]
        missing = missing[~accepted]
    raise AssertionError("the sampler does not accept")


def _try(key: bytes, label: str, size: int, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """Candidates, in steps (float64, whole), and which of them count."""
    bits = keyed_uint64(key, f"{label} bits", size)
    low = (bits % np.uint64(scale)).astype(np.float64)  # exact: a power of two
    is_negative = (bits >> np.uint64(63)).astype(bool)
    high = np.floor(-_logs(key, f"{label} geometric", size))
    magnitude = low + scale * high
    # The discrete Laplace: low with probability exp(-low / scale); of the two zeros one.
    accepted = -_logs(key, f"{label} laplace", size) > low / scale
    accepted &= ~(is_negative & (magnitude == 0))
    accepted &= -_logs(key, f"{label} normal", size) > (magnitude / scale - 1) ** 2 / 2
    return np.where(is_negative, -magnitude, magnitude), accepted


def _logs(key: bytes, label: str, size: int) -> np.ndarray:
    return log_uniform(keyed_uint64(key, label, size), key, f"{label} tail")
