"""Correlated noise from a Toeplitz matrix: sensitivity and error of its first column.

A matrix mechanism (DP-FTRL) adds the t-th row of C^-1 Z to the clipped sum of round t. The rows of
Z are independent draws, and C is lower triangular and Toeplitz with first column

    c = (1, c_1, c_2, ...),   non-negative, never increasing, c_0 = 1.

Releasing A (x + C^-1 z) for every prefix sum (A is the workload) is post-processing of C x + z. The
guarantee is therefore that of one Gaussian mechanism. Its sensitivity, for a client with update
norms <= 1 that joins at most `max_participations` rounds at least `min_separation` apart, is

    S^2 = || sum over j < k of c shifted by j * min_separation ||^2,   k participations.

This is exact for such c. The entries of C^T C are non-negative, so all updates may point in the
same direction. The entries neither grow with the distance of two rounds nor shrink for earlier
rounds, so the earliest and closest pattern is the worst. The error is the noise in the server's
iterates: with workload column a, the noise of iterate t has variance sum over i <= t of (a *
c^-1)_i^2.

Sources: Denisov et al. 2022, https://arxiv.org/abs/2202.08312 (adaptive streams); Kalinin & Lampert
2024, Theorem 2, https://arxiv.org/abs/2405.13763 (this sensitivity). Float64 NumPy and SciPy.
"""

from collections.abc import Sequence

import numpy as np

_ROUNDING = 1e-12  # tolerance for rounding errors in a column


def prefix_sums(rounds: int, *, momentum: float = 0.0) -> np.ndarray:
    """Returns the workload column a: the effect of round 0's noise on each later iterate.

    Plain server SGD sums the updates (all ones). With heavy-ball momentum m in [0, 1) an update
    also acts later: a_t = 1 + m + ... + m^t. The result is [rounds] float64. Raises `ValueError` if
    an argument is out of range.

    >>> prefix_sums(3, momentum=0.5)
    array([1.  , 1.5 , 1.75])
    """
    _require(rounds >= 1, "rounds", ">= 1", rounds)
    _require(0 <= momentum < 1, "momentum", "in [0, 1)", momentum)
    return np.cumsum(momentum ** np.arange(rounds))


def sensitivity_squared(
    column: Sequence[float] | np.ndarray,
    *,
    rounds: int,
    min_separation: int,
    max_participations: int = 0,
) -> float:
    """Returns S^2 in squared update norms; see the module.

    >>> sensitivity_squared([1.0, 0.5], rounds=4, min_separation=2)  # (1, .5, 1, .5)
    2.5
    >>> sensitivity_squared([1.0, 0.5], rounds=4, min_separation=1)  # (1, 1.5, 1.5, 1.5)
    7.75

    Args:
      column: c, padded with zeros if shorter than `rounds`.
      rounds: Rounds of the run, >= 1.
      min_separation: A client that joins round i joins no round before i + min_separation; >= 1.
      max_participations: Maximum number of rounds of a client; 0 means as many as the separation
        allows.

    Raises:
      ValueError: If an argument is out of range, or the column does not begin with 1, or is
        negative or increasing somewhere. The formula would then be too small.
    """
    _require(rounds >= 1, "rounds", ">= 1", rounds)
    _require(min_separation >= 1, "min_separation", ">= 1 round", min_separation)
    _require(max_participations >= 0, "max_participations", ">= 0", max_participations)
    column = checked_column(column)[:rounds]
    participations_of_separation = -(-rounds // min_separation)
    participations = min(
        max_participations or participations_of_separation, participations_of_separation
    )
    total = np.zeros(rounds)
    for start in range(0, participations * min_separation, min_separation):
        reached = min(len(column), rounds - start)
        total[start : start + reached] += column[:reached]
    return float(total @ total)


def iterate_variances(inverse_column: np.ndarray, workload: np.ndarray) -> np.ndarray:
    """Returns the noise variance of each iterate under unit draws, [rounds] float64.

    Args:
      inverse_column: First column of C^-1, [rounds].
      workload: Result of `prefix_sums`, [rounds].
    """
    from scipy import signal

    rounds = len(workload)
    combined = signal.convolve(inverse_column, workload, method="auto")[:rounds]
    return np.cumsum(combined * combined)


def reduced(variances: np.ndarray, error: str) -> float:
    """Reduces the result of `iterate_variances` to the "mean" or the "max" (the last value)."""
    if error not in ("mean", "max"):
        raise ValueError(f"`error` must be 'mean' or 'max', got {error!r}.")
    return float(variances.mean() if error == "mean" else variances[-1])


def checked_column(column: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the column in float64, if its sensitivity can be computed.

    Raises `ValueError` if it does not begin with 1, or is negative or increasing somewhere.
    """
    column = np.asarray(column, np.float64)
    begins = column.ndim == 1 and len(column) and np.isfinite(column).all() and column[0] == 1.0
    falls = begins and np.diff(column).max(initial=0.0) <= _ROUNDING
    if not falls or column.min() < -_ROUNDING:
        raise ValueError("`column` must begin with 1 and be non-negative and never increasing.")
    return np.maximum(column, 0.0)


def _require(sound: bool, name: str, rule: str, value: float) -> None:
    if not sound:
        raise ValueError(f"`{name}` must be {rule}, got {value!r}.")
