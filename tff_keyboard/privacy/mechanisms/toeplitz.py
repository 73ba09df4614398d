"""Correlated noise by a Toeplitz matrix: sensitivity and error of its first column.

A matrix mechanism (DP-FTRL) adds to the clipped sum of round t the t-th row of C^-1 Z, where the
rows of Z are independent draws and C is lower triangular and Toeplitz with first column

    c = (1, c_1, c_2, ...),   non-negative, never increasing, c_0 = 1.

Releasing A (x + C^-1 z) for every prefix sum (A the workload) is post-processing of C x + z, so
privacy is that of one Gaussian mechanism whose sensitivity, for a person with delta norms <= 1
who joins at most `max_participations` rounds, two of them `min_separation` apart, is

    S^2 = || sum over j < k of c shifted by j * min_separation ||^2,   k participations.

That is exact for such c: entries of C^T C are non-negative, so all deltas may point one way, and
they never grow with the distance of two rounds nor shrink for earlier ones, so the earliest and
closest pattern is the worst. Utility is the error of what the server steps along: with workload
column a, the noise of iterate t has the variance sum over i <= t of (a * c^-1)_i^2.

Sources: Denisov et al. 2022, https://arxiv.org/abs/2202.08312 (adaptive streams); Kalinin &
Lampert 2024, Theorem 2, https://arxiv.org/abs/2405.13763 (this sensitivity); Choquette-Choo et
al. 2023, https://arxiv.org/abs/2306.08153 (banded). Float64 NumPy and SciPy.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

_ROUNDING = 1e-12  # how far a column may leave its domain through rounding alone


class ToeplitzNoise(Protocol):
    """What a mechanism says of itself: `blt.Blt`, `banded.Banded`."""

    def column(self, rounds: int) -> np.ndarray:
        """First column c of C, [rounds] float64."""

    def inverse(self, rounds: int) -> np.ndarray:
        """First column of C^-1, [rounds] float64."""


def prefix_sums(rounds: int, *, momentum: float = 0.0) -> np.ndarray:
    """Workload column a: how round 0's noise moves the iterate after each round.

    Plain server SGD adds deltas up (all ones). With heavy-ball momentum m in [0, 1) a delta still
    acts later: a_t = 1 + m + ... + m^t. [rounds] float64, or a `ValueError`.

    >>> prefix_sums(3, momentum=0.5)
    array([1.  , 1.5 , 1.75])
    """
    _require(rounds >= 1, "rounds", ">= 1", rounds)
    _require(0 <= momentum < 1, "momentum", "in [0, 1)", momentum)
    return np.cumsum(momentum ** np.arange(rounds))


def inverse(column: Sequence[float] | np.ndarray, rounds: int) -> np.ndarray:
    """First column of C^-1, [rounds] float64; a shorter `column` goes on with zeros."""
    from scipy import signal

    impulse = np.zeros(rounds)
    impulse[0] = 1.0
    return signal.lfilter([1.0], np.asarray(column, np.float64)[:rounds], impulse)


def sensitivity_squared(
    column: Sequence[float] | np.ndarray,
    *,
    rounds: int,
    min_separation: int,
    max_participations: int = 0,
) -> float:
    """S^2 in squared delta norms; see the module.

    A column c shorter than `rounds` goes on with zeros (a banded C). A person who joins round i
    joins none before i + `min_separation` >= 1; `max_participations` 0 means what that allows.
    Raises `ValueError` if an argument is out of range, or the column is not 1 first, non-negative
    and never increasing: the formula would state too little.

    >>> sensitivity_squared([1.0, 0.5], rounds=4, min_separation=2)  # (1, .5, 1, .5)
    2.5
    >>> sensitivity_squared([1.0, 0.5], rounds=4, min_separation=1)  # (1, 1.5, 1.5, 1.5)
    7.75
    """
    _require(rounds >= 1, "rounds", ">= 1", rounds)
    _require(min_separation >= 1, "min_separation", ">= 1 round", min_separation)
    _require(max_participations >= 0, "max_participations", ">= 0", max_participations)
    column = checked_column(column)[:rounds]
    most = -(-rounds // min_separation)
    participations = min(max_participations or most, most)
    total = np.zeros(rounds)
    for start in range(0, participations * min_separation, min_separation):
        reached = min(len(column), rounds - start)
        total[start : start + reached] += column[:reached]
    return float(total @ total)


def iterate_variances(inverse_column: np.ndarray, workload: np.ndarray) -> np.ndarray:
    """Variance of the noise of each iterate under unit draws, [rounds] float64.

    Of the first column of C^-1 and a workload of `prefix_sums`, [rounds] each.
    """
    from scipy import signal

    rounds = len(workload)
    combined = signal.convolve(inverse_column, workload, method="auto")[:rounds]
    return np.cumsum(combined * combined)


def reduced(variances: np.ndarray, error: str) -> float:
    """One number of `iterate_variances`: the "mean", or the "max", which is the last."""
    if error not in ("mean", "max"):
        raise ValueError(f"`error` must be 'mean' or 'max', got {error!r}.")
    return float(variances.mean() if error == "mean" else variances[-1])


def checked_column(column: Sequence[float] | np.ndarray) -> np.ndarray:
    """The column in float64, if sensitivity may be computed of it.

    Raises `ValueError` if it is not 1 first, non-negative and never increasing.
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
