"""One-shot audit of a private sum: what canaries in one run prove about its epsilon.

A canary is a client that sends a random direction of length `clip_norm`, in one round. Random
directions of many dimensions are all but orthogonal, so hundreds of canaries audit one run without
hindering each other, and directions that nobody sent show what the statistic is without a canary.

    y = the released noisy sums of the rounds,  [rounds, dim]
    statistic of a canary of round t = <C y, column t of C (x) direction> / (clip ||column t||)

with the mechanism's matrix C, which makes its noise white (the identity for independent noise). In
theory it is N(1, z^2 / ||column||^2) with the canary and N(0, same) without; an estimate fits one
variance and two means, mu = difference / standard deviation, and epsilon is the Gaussian's curve at
mu. A 95 % lower bound of it above the stated epsilon refutes the statement: too little noise, no
clipping, another sensitivity. A bound below it proves nothing.

Source: Andrew et al. 2023, https://arxiv.org/abs/2302.03098 (Algorithms 1, 2; the mechanism's own
statistic in place of the largest cosine).
"""

import dataclasses
import math

import numpy as np
from scipy import special

from tff_keyboard.privacy.accounting import accounting


@dataclasses.dataclass(frozen=True)
class CanaryEstimate:
    """What canaries show.

    Attributes:
      mu: Distance of the two laws, in standard deviations.
      epsilon: Epsilon at the delta asked for; infinite where the statistics do not vary.
      epsilon_low: 95 % lower bound (one-sided).
    """

    mu: float
    epsilon: float
    epsilon_low: float


def direction(seed: int, number: int, dim: int) -> np.ndarray:
    """[dim] float64 of length 1, uniform on the sphere; a pure function of its arguments."""
    vector = np.random.default_rng([seed, number]).normal(size=dim)
    return vector / np.linalg.norm(vector)


def statistics(
    sums: np.ndarray,
    rounds: np.ndarray,
    directions: np.ndarray,
    *,
    clip_norm: float,
    column: np.ndarray | None = None,
) -> np.ndarray:
    """The statistic of the module's formula for canaries, sent or not.

    Args:
      sums: [rounds, dim] released sums (means times the report goal).
      rounds: [canaries] the round each was sent in, or would have been.
      directions: [canaries, dim], of length 1.
      clip_norm: What a canary's length was, or was clipped to.
      column: [rounds] first column of the Toeplitz matrix C; None: independent noise.
    """
    num_rounds = len(sums)
    matrix = np.eye(num_rounds)
    if column is not None:
        for t in range(num_rounds):
            matrix[t:, t] = column[: num_rounds - t]
    white = matrix @ sums
    lengths = np.linalg.norm(matrix, axis=0)
    matched = matrix.T @ white  # [rounds, dim]
    return np.einsum("kd,kd->k", matched[rounds], directions) / (clip_norm * lengths[rounds] ** 2)


def estimate(inside: np.ndarray, outside: np.ndarray, *, delta: float) -> CanaryEstimate:
    """Epsilon from the statistics of canaries that were sent and of some that were not.

    Args:
      inside: Statistics of canaries that were sent, two or more.
      outside: Statistics of canaries that were not sent, two or more.
      delta: Delta of the statement, in (0, 1).
    """
    n, m = len(inside), len(outside)
    spread = math.sqrt(
        (np.sum((inside - inside.mean()) ** 2) + np.sum((outside - outside.mean()) ** 2))
        / (n + m - 2)
    )
    if spread == 0:
        return CanaryEstimate(math.inf, math.inf, math.inf)
    mu = max(float(inside.mean() - outside.mean()) / spread, 0.0)
    # Of a standardised difference (Hedges & Olkin 1985, chapter 5, equation 10).
    error = math.sqrt(1 / n + 1 / m + mu**2 / (2 * (n + m)))
    low = max(mu - float(special.ndtri(0.95)) * error, 0.0)
    return CanaryEstimate(mu, _epsilon(mu, delta), _epsilon(low, delta))


def _epsilon(mu: float, delta: float) -> float:
    return accounting.epsilon_of_zcdp(mu**2 / 2, delta, method="exact Gaussian")
