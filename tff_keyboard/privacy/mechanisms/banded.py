"""Banded Toeplitz noise: the best column of a given bandwidth for a schedule.

C has `bands` diagonals, c = (1, c_1, ..., c_{bands-1}), so C^-1 z is streamed from the last
bands - 1 released noises:

    x_t = z_t - sum over j < bands of c_j x_{t-j}.

One model-sized buffer a band, against one for every geometric series of a BLT: bands pay where
rounds are few or the separation is short. With bands <= separation the columns of a person's rounds
do not overlap and S^2 = k ||c||^2 (Choquette-Choo et al. 2023, Theorem 2,
https://arxiv.org/abs/2306.08153); wider bands are allowed, `toeplitz.sensitivity_squared` is exact
for them too.

The column is searched as a sum of steps d_j >= 0, c_j = d_j + d_{j+1} + ..., which makes it
non-negative and never increasing, by L-BFGS-B with the exact gradient. Float64 NumPy and SciPy.
"""

import dataclasses
import functools

import numpy as np

from tff_keyboard.privacy.mechanisms import toeplitz

_DIGITS = 9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Banded:
    """The diagonals of C. Raises `ValueError` if they are not."""

    coefficients: tuple[float, ...]  # c, [bands]: 1 first, non-negative, never increasing

    def __post_init__(self) -> None:
        toeplitz.checked_column(self.coefficients)

    def column(self, rounds: int) -> np.ndarray:
        """c followed by zeros, [rounds] float64."""
        return np.pad(self.coefficients, (0, rounds))[:rounds]

    def inverse(self, rounds: int) -> np.ndarray:
        """First column of C^-1, [rounds] float64."""
        return toeplitz.inverse(self.coefficients, rounds)


@functools.lru_cache(maxsize=64)
def optimal_banded(
    *,
    rounds: int,
    min_separation: int,
    max_participations: int = 0,
    bands: int,
    momentum: float = 0.0,
    error: str = "mean",
) -> Banded:
    """The column of least error * S. Cached by its arguments; pure and deterministic.

    `bands` are 1..rounds; 1 is independent noise. The other arguments are those of `optimal_blt`.
    Raises `ValueError` if one is out of range.

    >>> optimal_banded(rounds=8, min_separation=8, bands=1)
    Banded(coefficients=(1.0,))
    """
    if not 1 <= bands <= rounds:
        raise ValueError(f"`bands` must be in 1..rounds = {rounds}, got {bands}.")
    workload = toeplitz.prefix_sums(rounds, momentum=momentum)
    toeplitz.reduced(workload, error)
    toeplitz.sensitivity_squared(  # refuses now what the search would divide by
        [1.0], rounds=rounds, min_separation=min_separation, max_participations=max_participations
    )
    if bands == 1:
        return Banded(coefficients=(1.0,))
    most = -(-rounds // min_separation)
    starts = np.arange(min(max_participations or most, most)) * min_separation
    weights = np.ones(rounds) / rounds if error == "mean" else np.eye(rounds)[-1]
    counted = np.cumsum(weights[::-1])[::-1]  # of the square of (a * c^-1)_i

    def loss(steps: np.ndarray) -> tuple[float, np.ndarray]:
        column = np.cumsum(steps[::-1])[::-1]
        error_value, error_slope = _error(column, workload, counted)
        squared, squared_slope = _squared(column, rounds, starts)
        slope = 0.5 * (error_slope / error_value + squared_slope / squared)
        return 0.5 * float(np.log(error_value) + np.log(squared)), np.cumsum(slope)

    from scipy import optimize

    # The square root of the prefix sums, (1 - x)^(-1/2), cut off, is near the best for one
    # participation.
    steps = np.arange(1, bands)
    column = np.append(1.0, np.cumprod((2 * steps - 1) / (2 * steps)))
    start = column - np.append(column[1:], 0.0)
    found = optimize.minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (bands - 1) + [(1e-12, None)],
        options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-9},
    )
    column = np.cumsum(found.x[::-1])[::-1]
    column = np.floor(column / column[0] * 10**_DIGITS) / 10**_DIGITS
    return Banded(coefficients=(1.0, *(float(x) for x in column[1:])))


def _error(
    column: np.ndarray, workload: np.ndarray, counted: np.ndarray
) -> tuple[float, np.ndarray]:
    """sum_i counted_i g_i^2 with g = a * c^-1, and its gradient in `column`.

    dg / dc_j is -(g * c^-1) shifted by j.
    """
    from scipy import signal

    combined = signal.lfilter([1.0], column, workload)
    again = signal.lfilter([1.0], column, combined)
    weighted = 2 * counted * combined
    # Correlation: slope_j = -sum_i weighted_i again_{i - j}.
    slope = -signal.correlate(weighted, again, mode="full", method="auto")
    middle = len(workload) - 1
    return float(counted @ combined**2), slope[middle : middle + len(column)]


def _squared(column: np.ndarray, rounds: int, starts: np.ndarray) -> tuple[float, np.ndarray]:
    """S^2 of an unnormalised column, and its gradient."""
    total = np.zeros(rounds)
    for start in starts:
        reached = min(len(column), rounds - start)
        total[start : start + reached] += column[:reached]
    slope = np.zeros(len(column))
    for start in starts:
        reached = min(len(column), rounds - start)
        slope[:reached] += 2 * total[start : start + reached]
    return float(total @ total), slope
