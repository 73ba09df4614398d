"""Buffered linear Toeplitz (BLT) noise, with buffers optimised for a schedule.

The column of C is a sum of a few geometric series,

    c_0 = 1,   c_t = sum_i s_i lambda_i^(t-1),   s_i >= 0, sum_i s_i <= 1, 0 <= lambda_i < 1,

so that C^-1 z is streamed with one buffer of model size for each term:

    x_t = z_t - sum_i s_i b_i,     b_i <- lambda_i b_i + x_t.

Any such column is non-negative and never increases, as the sensitivity in `toeplitz.py` requires.
The restriction costs nothing, because optimisers find the best scales in this range. Two buffers
reach the tree's error at a third of its rho (docs/privacy.md).

Sources: Dvijotham et al. 2024, https://arxiv.org/abs/2404.16706; McMahan et al. 2024 (several
participations), https://arxiv.org/abs/2408.08868. Float64 NumPy and SciPy.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tff_keyboard.privacy.mechanisms import toeplitz

if TYPE_CHECKING:
    from scipy import optimize

MAX_BUFFERS = 4
# Start values of the search: memory of the shortest and the longest buffer, in rounds.
_STARTS = ((3.0, 30.0), (5.0, 200.0), (10.0, 2000.0))
_START_SCALE = 0.3  # sum of the scales at the start
_DIGITS = 9  # decays and scales are rounded, because the last bits of a search are arbitrary


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blt:
    """The decays lambda_i and scales s_i of the column.

    Raises `ValueError` if they are not in the ranges above.
    """

    decays: tuple[float, ...]  # each in [0, 1)
    scales: tuple[float, ...]  # as many as decays, each >= 0, with a sum of at most 1

    def __post_init__(self) -> None:
        if not 1 <= len(self.decays) <= MAX_BUFFERS or len(self.scales) != len(self.decays):
            raise ValueError(
                f"`decays` and `scales` must be 1 to {MAX_BUFFERS} numbers each, and have the same "
                f"length, got {len(self.decays)} and {len(self.scales)}."
            )
        if not all(0 <= decay < 1 for decay in self.decays):
            raise ValueError(f"`decays` must lie in [0, 1), got {self.decays}.")
        if not all(scale >= 0 for scale in self.scales) or not sum(self.scales) <= 1 + 1e-12:
            raise ValueError(f"`scales` must be >= 0 and sum to <= 1, got {self.scales}.")

    def column(self, rounds: int) -> np.ndarray:
        """Returns c, [rounds] float64."""
        return _column(np.array(self.decays), np.array(self.scales), rounds)

    def inverse(self, rounds: int) -> np.ndarray:
        """Returns the first column of C^-1, [rounds] float64."""
        return _inverse(np.array(self.decays), np.array(self.scales), rounds)


@functools.lru_cache(maxsize=64)
def optimal_blt(
    *,
    rounds: int,
    min_separation: int,
    max_participations: int = 0,
    buffers: int = 2,
    momentum: float = 0.0,
    error: str = "mean",
) -> Blt:
    """Returns the BLT with the least error at a given rho: minimises error * S.

    The result is cached, depends only on the arguments, and takes less than a second for two
    buffers and 2,000 rounds. A run records its result, because other versions of SciPy may differ
    in the last digits.

    >>> best = optimal_blt(rounds=2000, min_separation=313, max_participations=6)
    >>> [round(decay, 3) for decay in best.decays], [round(scale, 3) for scale in best.scales]
    ([0.779, 0.993], [0.324, 0.147])

    Args:
      rounds: Rounds of the run, >= 1. The run may stop earlier (the guarantee holds), but not
        continue.
      min_separation: Rounds between participations of a client, >= 1, which the cohort sampler
        enforces.
      max_participations: Maximum number of rounds of a client; 0 means as many as the separation
        allows.
      buffers: Number of buffers, 1..4.
      momentum: The server's momentum, in [0, 1), for the workload; see `toeplitz.prefix_sums`.
      error: "mean" of the noise variance over the iterates, or "max" (the last iterate).

    Raises:
      ValueError: If an argument is out of range.
    """
    if not 1 <= buffers <= MAX_BUFFERS:
        raise ValueError(f"`buffers` must be in 1..{MAX_BUFFERS}, got {buffers}.")
    from scipy import signal

    workload = toeplitz.prefix_sums(rounds, momentum=momentum)
    growth = np.array([1.0, -1.0 - momentum, momentum])  # 1 / growth is the workload's series

    def loss(parameters: np.ndarray) -> float:
        """Returns half the logarithm of squared sensitivity times variance of the noise."""
        decays, scales = _decays_and_scales(parameters)
        squared = toeplitz.sensitivity_squared(
            _column(decays, scales, rounds),
            rounds=rounds,
            min_separation=min_separation,
            max_participations=max_participations,
        )
        combined = signal.lfilter([1.0], growth, _inverse(decays, scales, rounds))
        variance = toeplitz.reduced(np.cumsum(combined * combined), error)
        return 0.5 * float(np.log(variance) + np.log(squared))

    toeplitz.reduced(workload, error)  # raises early for an unknown `error`
    best = min((_search(loss, start, buffers) for start in _STARTS), key=lambda r: r.fun)
    decays, scales = _decays_and_scales(best.x)
    # Rounded down, so that the sum is still at most 1.
    rounded = np.floor(np.array([decays, scales])[:, np.argsort(decays)] * 10**_DIGITS)
    decays, scales = (rounded / 10**_DIGITS).tolist()
    return Blt(decays=tuple(decays), scales=tuple(scales))


def _search(
    loss: Callable[[np.ndarray], float], memories: tuple[float, float], buffers: int
) -> "optimize.OptimizeResult":
    """Minimises the loss over the logarithms of the buffers' memories and scales, [2 buffers]."""
    from scipy import optimize

    min_memory, max_memory = memories
    if buffers == 1:
        min_memory = max_memory
    spread = np.geomspace(min_memory, max_memory, buffers)
    scale = np.log(_START_SCALE / buffers / (1 - _START_SCALE))
    start = np.concatenate([np.log(spread), np.full(buffers, scale)])
    coarse = optimize.minimize(loss, start, method="L-BFGS-B", options={"maxiter": 300})
    budget = 300 * buffers
    return optimize.minimize(
        loss,
        coarse.x,
        method="Nelder-Mead",
        options={"maxiter": budget, "maxfev": budget, "xatol": 1e-6, "fatol": 1e-11},
    )


def _decays_and_scales(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Converts unbounded numbers to decays (logistic) and scales (softmax with a remainder)."""
    buffers = len(parameters) // 2
    logits = np.append(np.clip(parameters[buffers:], -40, 40), 0.0)
    shares = np.exp(logits - logits.max())
    decays = 1 / (1 + np.exp(-np.clip(parameters[:buffers], -20, 16)))
    return decays, shares[:-1] / shares.sum()


# Sums of powers stay accurate if decays are close to 1 and to each other. Expanded polynomials do
# not: for four buffers and a long run their error was up to 1e-3.


def _column(decays: np.ndarray, scales: np.ndarray, rounds: int) -> np.ndarray:
    """Returns c_0 = 1, c_t = sum_i s_i lambda_i^(t-1), [rounds] float64."""
    powers = decays[:, np.newaxis] ** np.arange(rounds - 1)
    return np.append(1.0, scales @ powers)


def _inverse(decays: np.ndarray, scales: np.ndarray, rounds: int) -> np.ndarray:
    """Returns the first column of C^-1, the response of the streaming recurrence.

    It has the same form. With r = sqrt(s) it is -r^T (diag(lambda) - r r^T)^(t-1) r, for a
    symmetric matrix of norm <= 1.
    """
    root = np.sqrt(scales)
    modes, vectors = np.linalg.eigh(np.diag(decays) - np.outer(root, root))
    return _column(modes, -np.square(root @ vectors), rounds)
