"""Bounds that let one look at a test before it is over without more error, and what that costs.

A test is looked at K times, each after another K-th of its people. Its statistic at look k, with
a true effect that moves it by d at the end, is that of a random walk

    Z_k = S_k / sqrt(k),    S_k = S_{k-1} + N(d / sqrt(K), 1)

and it stops at the first |Z_k| >= c_k. The bounds c_k spend the error alpha as O'Brien and Fleming
would: nearly nothing early, so that the last bound is nearly that of a test without looks.

    spent up to a share t of the people:  4 - 4 Phi(z / sqrt(t)),   Phi(z) = 1 - alpha / 4

Sources: Lan & DeMets 1983, Biometrika 70; the recursion over looks: Armitage, McPherson & Rowe
1969, J. R. Statist. Soc. A 132.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.evaluation.statistics import distributions
from tff_keyboard.evaluation.statistics.distributions import normal_density, normal_tail

MOST_LOOKS = 20
_POINTS = 301  # of the grid between the bounds; bounds are then right to four digits
_FARTHEST = 9.0  # standard deviations: a bound beyond is never reached


@functools.cache
def bounds(looks: int, alpha: float = 0.05) -> tuple[float, ...]:
    """c_1 .. c_K of a two-sided test, K from 1 to `MOST_LOOKS`, with error `alpha` in (0, 1).

    >>> [round(bound, 2) for bound in bounds(2)]
    [2.96, 1.97]
    """
    _check(looks, alpha)
    found: list[float] = []
    spent = 0.0
    for look in range(1, looks + 1):
        may = _spent(look / looks, alpha) - spent

        def shortfall(bound: float, may: float = may) -> float:
            upper, lower = _crossings([*found, bound], drift=0.0)[-1]
            return may - upper - lower

        if shortfall(_FARTHEST) <= 0:
            found.append(_FARTHEST)
        else:
            found.append(distributions.root(shortfall, 0.1, _FARTHEST, within=1e-6))
        spent += may
    return tuple(found)


@functools.cache
def drift_for(power: float, looks: int, alpha: float = 0.05) -> float:
    """d at which the test says so with probability `power`, in (alpha, 1).

    For one look it is z(1 - alpha / 2) + z(power), as in every textbook.
    """
    if not alpha < power < 1:
        raise ValueError(f"`power` must be above alpha = {alpha:g} and below 1, got {power}.")
    limits = bounds(looks, alpha)

    def surplus(drift: float) -> float:
        return sum(upper for upper, _ in _crossings(limits, drift)) - power

    return distributions.root(surplus, 0.0, 12.0, within=1e-6)


def _check(looks: int, alpha: float) -> None:
    if not 1 <= looks <= MOST_LOOKS:
        raise ValueError(f"`looks` must be from 1 to {MOST_LOOKS}, got {looks}.")
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must be in (0, 1), got {alpha}.")


def _spent(share: float, alpha: float) -> float:
    """Error spent after a share of the people."""
    z = -distributions.normal_quantile(alpha / 4)
    return 2 * math.erfc(z / math.sqrt(2 * share))


def _crossings(limits: Sequence[float], drift: float) -> list[tuple[float, float]]:
    """Probability to stop at each look, above and below; `drift` is that of the end."""
    step = drift / math.sqrt(len(limits)) if drift else 0.0
    crossings = []
    grid, density = np.zeros(1), np.ones(1)  # S_0 = 0: a mass, not yet a density
    weights = np.ones(1)
    for look, limit in enumerate(limits, start=1):
        edge = limit * math.sqrt(look)
        moved = grid + step
        mass = density * weights
        above = float(np.sum(mass * normal_tail(edge - moved)))
        below = float(np.sum(mass * normal_tail(edge + moved)))
        crossings.append((above, below))
        next_grid = np.linspace(-edge, edge, _POINTS)
        density = normal_density(next_grid[:, np.newaxis] - moved) @ mass
        grid = next_grid
        weights = _simpson(grid)
    return crossings


def _simpson(grid: np.ndarray) -> np.ndarray:
    """Weights of Simpson's rule on an odd number of equidistant points."""
    weights = np.full(grid.size, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return weights * (grid[1] - grid[0]) / 3
