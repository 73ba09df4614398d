"""Epsilon of a run: sampled Gaussian (RDP), trees and correlated noise (zCDP).

All guarantees are at the level of users (one client is one user). They are computed in seconds and
without TensorFlow. There are two adjacencies, and every result names its own:

- "add or remove one": the data of one client are present or not. The sum of clipped updates changes
  by at most the clip norm. Used without random sampling: the whole record of one client, including
  its part of the count of unclipped clients, is zero in all rounds ("zero-out", Kairouz et al.
  2021, Definition 1.1).
- "replace one": the data of one client are replaced by the data of another. Used with cohorts of
  fixed size drawn without replacement, whose size must not change. The sum then changes by up to
  twice the clip norm. `dp_accounting` expects noise / sensitivity and does not double the
  sensitivity, so this module halves the multiplier.

Sources: Mironov 2017 (RDP), https://arxiv.org/abs/1702.07476; Wang et al. 2019 (without
replacement), https://arxiv.org/abs/1808.00087; Bun & Steinke 2016 (zCDP),
https://arxiv.org/abs/1605.02065; Kairouz et al. 2021 (DP-FTRL), https://arxiv.org/abs/2103.00039;
Xu et al. 2023 (Gboard), https://arxiv.org/abs/2305.18465.
"""

import math
from collections.abc import Callable

import dp_accounting
from dp_accounting import rdp
from scipy import optimize, special

from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.mechanisms import toeplitz
from tff_keyboard.privacy.mechanisms.blt import Blt
from tff_keyboard.privacy.mechanisms.tree_sensitivity import tree_sensitivity_squared

REPLACE_ONE = "replace one client"
ZERO_OUT_ONE = "zero out one client's contributions"
EXACT_GAUSSIAN, RDP_CONVERSION = "exact Gaussian", "RDP conversion"  # from rho to epsilon

_TOLERANCE = 1e-3  # relative, of a calibrated noise multiplier
_CERTAIN = 9.0  # standard deviations: Phi(9) is 1 in float64


def fixed_size_gaussian(
    *, noise_multiplier: float, population: int, cohort: int, rounds: int, delta: float
) -> Guarantee:
    """Accounts for rounds that draw `cohort` of `population` clients uniformly without replacement.

    `CohortSampler` samples like this if there is no dropout and the minimum separation is one
    round. RDP only, because `dp_accounting` has no PLD accounting for it. The bound compares a
    cohort that contains a client with a cohort that contains another one in its place. The
    sensitivity is therefore twice the clip norm for either kind of neighbour.

    Args:
      noise_multiplier: Noise standard deviation / clip norm.
      population: Number of clients that may be drawn.
      cohort: Clients drawn each round, 1 <= cohort <= population.
      rounds: Rounds of the run, >= 0.
      delta: Delta of the statement, in (0, 1).

    Raises:
      ValueError: If an argument is out of range.

    >>> g = fixed_size_gaussian(noise_multiplier=2.0, population=10_000, cohort=100, rounds=1000,
    ...                         delta=1e-6)
    >>> round(g.epsilon, 2)
    4.02
    """
    _check(noise_multiplier, rounds, delta)
    if not 1 <= cohort <= population:
        raise ValueError(f"`cohort` must be in 1..population = {population}, got {cohort}.")
    epsilon = math.inf if rounds else 0.0
    if rounds and noise_multiplier:
        round_event = dp_accounting.SampledWithoutReplacementDpEvent(
            population, cohort, dp_accounting.GaussianDpEvent(noise_multiplier / 2)
        )
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE
        accountant = rdp.RdpAccountant(neighboring_relation=relation)
        accountant.compose(dp_accounting.SelfComposedDpEvent(round_event, rounds))
        epsilon = accountant.get_epsilon(delta)
    return Guarantee(epsilon=epsilon, delta=delta, adjacency=REPLACE_ONE, method="RDP")


def unsampled_gaussian(
    *, noise_multiplier: float, participations: int, delta: float, method: str = EXACT_GAUSSIAN
) -> Guarantee:
    """Accounts for fresh noise in every round, if a client joins at most `participations` rounds.

    Assumes nothing about sampling, so it also holds for cohorts that are not drawn at random
    (check-ins, a minimum separation). Exact: T rounds are one Gaussian mechanism with noise z /
    sqrt(T) (Dong et al. 2019, Corollary 3.3, https://arxiv.org/abs/1905.02383). Epsilon is finite
    for any noise above 0 (about T / 2z^2 for very little noise) as long as a float can represent
    it.

    >>> g = unsampled_gaussian(noise_multiplier=4.0, participations=2, delta=1e-6)
    >>> round(g.epsilon, 2)
    1.54

    Args:
      noise_multiplier: Noise standard deviation / clip norm.
      participations: Maximum number of rounds of a client, T, >= 0.
      delta: Delta of the statement, in (0, 1).
      method: "exact Gaussian", or "RDP conversion" for a discrete Gaussian, which has the same rho
        (Canonne et al. 2020, Theorem 4), but the same privacy curve only up to one step of its
        grid.
    """
    _check(noise_multiplier, participations, delta)
    rho = _rho(participations, noise_multiplier)
    return _of_zcdp(rho, delta, method)


def tree_gaussian(
    *,
    noise_multiplier: float,
    rounds: int,
    delta: float,
    min_separation: int,
    max_participations: int = 0,
    method: str = RDP_CONVERSION,
) -> Guarantee:
    """Accounts for DP-FTRL by tree aggregation. Needs no random sampling of clients.

    Args:
      noise_multiplier: Noise standard deviation of a tree node / clip norm.
      rounds: Rounds of the run, >= 0.
      delta: Delta of the statement, in (0, 1).
      min_separation: A client that joins round i joins no round before i + min_separation; >= 1.
      max_participations: Maximum number of rounds of a client; 0 means as many as the separation
        allows.
      method: Conversion of rho to epsilon: "RDP conversion", as in the published figures of Gboard,
        or "exact Gaussian", which is lower and equally valid.

    Raises:
      ValueError: If an argument is out of range.

    Gboard's first launch with a formal guarantee (es-ES next word, Xu et al. 2023, Table 1) had a
    report goal of 6,500, which only scales the noise in the mean:

    >>> g = tree_gaussian(noise_multiplier=7.0, rounds=2000, delta=1e-10, min_separation=313,
    ...                   max_participations=6)
    >>> f"rho = {g.rho:.2f}, epsilon = {g.epsilon:.2f}"
    'rho = 0.81, epsilon = 8.90'
    """
    _check(noise_multiplier, rounds, delta)
    if min_separation < 1:
        raise ValueError(f"`min_separation` must be >= 1 round, got {min_separation}.")
    if max_participations < 0:
        raise ValueError(f"`max_participations` must be >= 0, got {max_participations}.")
    rho = 0.0
    if rounds:
        squared = tree_sensitivity_squared(
            rounds, min_separation=min_separation, max_participations=max_participations or rounds
        )
        rho = _rho(squared, noise_multiplier)
    return _of_zcdp(rho, delta, method)


def matrix_gaussian(
    *,
    noise: Blt,
    noise_multiplier: float,
    rounds: int,
    delta: float,
    min_separation: int,
    max_participations: int = 0,
    method: str = EXACT_GAUSSIAN,
) -> Guarantee:
    """Accounts for DP-FTRL by correlated noise C^-1 z (BLT). Needs no random sampling of clients.

    The sensitivity S of C is computed here, and rho = S^2 / (2 z^2), as for a tree with its own S.

    Args:
      noise: Coefficients of C.
      noise_multiplier: Noise standard deviation of one draw z / clip norm.
      rounds: Rounds of the run, >= 0.
      delta: Delta of the statement, in (0, 1).
      min_separation: A client that joins round i joins no round before i + min_separation; >= 1.
      max_participations: Maximum number of rounds of a client; 0 means as many as the separation
        allows.
      method: Conversion of rho to epsilon. The published matrix mechanisms of Gboard use "exact
        Gaussian".

    Raises:
      ValueError: If an argument is out of range.
    """
    _check(noise_multiplier, rounds, delta)
    rho = 0.0
    if rounds:
        squared = toeplitz.sensitivity_squared(
            noise.column(rounds),
            rounds=rounds,
            min_separation=min_separation,
            max_participations=max_participations,
        )
        rho = _rho(squared, noise_multiplier)
    return _of_zcdp(rho, delta, method)


def _of_zcdp(rho: float, delta: float, method: str) -> Guarantee:
    epsilon, method = epsilon_of_zcdp(rho, delta, method=method), f"zCDP, {method}"
    return Guarantee(epsilon=epsilon, delta=delta, rho=rho, adjacency=ZERO_OUT_ONE, method=method)


def epsilon_of_zcdp(rho: float, delta: float, *, method: str) -> float:
    """Returns the epsilon at `delta` of a Gaussian mechanism that is rho-zCDP.

    "RDP conversion" uses the best Renyi order (Canonne et al. 2020, Proposition 12,
    https://arxiv.org/abs/2004.00010) and gives an upper bound. "exact Gaussian" uses the privacy
    curve of the Gaussian (Balle & Wang 2018, Theorem 8, https://arxiv.org/abs/1805.06530), with an
    error of 1e-9, relative above 1 and absolute below.

    >>> round(epsilon_of_zcdp(79 / 98, 1e-10, method="RDP conversion"), 2)
    8.9
    """
    if method not in (RDP_CONVERSION, EXACT_GAUSSIAN):
        raise ValueError(f"`method` must be 'RDP conversion' or 'exact Gaussian', got {method!r}.")
    if rho == 0 or math.isinf(rho):
        return rho
    if method == EXACT_GAUSSIAN:
        return _epsilon_of_gaussian(math.sqrt(2 * rho), delta)
    event = dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * rho))
    return rdp.RdpAccountant().compose(event).get_epsilon(delta)


def calibrate_noise_multiplier(
    guarantee: Callable[[float], Guarantee], *, target_epsilon: float
) -> float:
    """Returns the smallest noise multiplier whose epsilon is at most `target_epsilon`.

    The result may exceed it by 0.1 %.

    Args:
      guarantee: Maps a noise multiplier to its guarantee, such as `lambda z:
        tree_gaussian(noise_multiplier=z, ...)`.
      target_epsilon: The largest allowed epsilon, > 0.

    Raises:
      ValueError: If no noise multiplier up to a million reaches the target.

    >>> z = calibrate_noise_multiplier(
    ...     lambda z: unsampled_gaussian(noise_multiplier=z, participations=1, delta=1e-6),
    ...     target_epsilon=1.0)
    >>> round(z, 1)
    4.2
    """
    if not target_epsilon > 0:
        raise ValueError(f"`target_epsilon` must be > 0, got {target_epsilon!r}.")
    high = 1.0
    while guarantee(high).epsilon > target_epsilon:
        high *= 2
        if high > 1e6:
            raise ValueError(f"No noise multiplier up to 1e6 gives epsilon <= {target_epsilon}.")
    low = high / 2
    while guarantee(low).epsilon <= target_epsilon:
        high, low = low, low / 2
        if low < 1e-3:
            return high
    while high - low > _TOLERANCE * low:
        middle = (low + high) / 2
        if guarantee(middle).epsilon <= target_epsilon:
            high = middle
        else:
            low = middle
    return high


def _epsilon_of_gaussian(mu: float, delta: float) -> float:
    """Returns the epsilon of a Gaussian mechanism with sensitivity / noise = `mu` > 0.

    Solves Balle & Wang's curve, delta = Phi(a) - e^epsilon Phi(a - mu) with a = mu / 2 - epsilon /
    mu, for a. Because e^epsilon phi(a - mu) = phi(a), the curve is

        delta = phi(a) (R(-a) - R(mu - a)),   R(x) = Phi(-x) / phi(x) = sqrt(pi/2) erfcx(x/sqrt 2),

    which neither overflows, underflows nor cancels for a huge mu or a tiny delta.
    """

    def log_ratio(a: float) -> float:
        """Returns ln(delta at a / delta), which increases with a."""
        difference = special.erfcx(-a / math.sqrt(2)) - special.erfcx((mu - a) / math.sqrt(2))
        if difference <= 0:  # mu below the rounding of erfcx
            return -math.inf
        return math.log(0.5 * difference) - a * a / 2 - math.log(delta)

    highest = min(mu / 2, _CERTAIN)
    if log_ratio(highest) <= 0 and highest == mu / 2:
        return 0.0  # the guarantee holds with epsilon 0
    lowest = float(special.ndtri(delta)) - 1e-9  # R(mu - a) > 0: delta at a is below Phi(a)
    a = optimize.brentq(lambda x: max(log_ratio(x), -1e3), lowest, highest, xtol=1e-14, rtol=1e-14)
    step = 1e-14
    while log_ratio(a) > 0:  # a root that is too large would give too small an epsilon
        a -= step
        step *= 2
    return mu * (mu / 2 - a)


def _rho(sensitivity_squared: float, noise_multiplier: float) -> float:
    """Returns the zCDP parameter of a Gaussian. `sensitivity_squared` is in squared clip norms.

    The result is infinite if the noise variance underflows to 0.
    """
    if sensitivity_squared == 0:
        return 0.0
    variance = noise_multiplier**2  # may underflow to 0
    return sensitivity_squared / (2 * variance) if variance > 0 else math.inf


def _check(noise_multiplier: float, rounds: int, delta: float) -> None:
    if not (math.isfinite(noise_multiplier) and noise_multiplier >= 0):
        raise ValueError(f"`noise_multiplier` must be >= 0, got {noise_multiplier!r}.")
    if rounds < 0:
        raise ValueError(f"`rounds` must be >= 0, got {rounds}.")
    if not 0 < delta < 1:
        raise ValueError(f"`delta` must be in (0, 1), got {delta!r}.")
