"""95 % intervals over clients, by the delete-one-user jackknife.

A population ratio is R = sum_k a_k / sum_k b_k (hits over words, nats over tokens). The words of
one client are not independent, so the unit that is left out is a client:

    R_(k) = (A - a_k) / (B - b_k),  mean = average of R_(k)
    s^2 = (K - 1) / K * sum_k (R_(k) - mean)^2,  s the standard error
    interval = R -+ t s,  t the 97.5 % quantile of Student's t with
               min(n - 1, K / g) degrees of freedom, at least one
    n = (sum_k b_k)^2 / sum_k b_k^2, the effective number of clients
    g = K sum_k d_k^4 / (sum_k d_k^2)^2 - 3,  the excess kurtosis of d_k = R_(k) - mean

A few clients type a large part of a corpus. n, Kish's effective sample size, is K if all clients
type the same amount. With K - 1 degrees of freedom the interval of an uneven corpus would cover the
true value far less often than 95 % of the time. If the heaviest users are also the most difficult
to predict, a few clients cause most of the error, and g is large: a variance estimated from K
values has 2 K / (2 + g) degrees of freedom (Satterthwaite). K / g, about half of that, corrects for
the fact that samples from long tails underestimate g. docs/evaluation.md and
tests/evaluation/metrics/test_coverage.py report the coverage.

A client with b_k = 0 contains no information about the ratio and is left out of K. The interval of
the difference of two models on the same clients leaves the same client out of both ratios, so their
common part cancels.

Sources: Efron & Tibshirani 1993, chapter 11; ratio estimators: Cochran 1977, section 6.17;
effective sample size: Kish 1965, section 11.7; degrees of freedom: Satterthwaite 1946, Biometrics
Bulletin 2.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tff_keyboard.evaluation.statistics.distributions import t_quantile


class Interval(NamedTuple):
    """A ratio, or a difference of ratios, with its 95 % interval.

    >>> found = ratio_interval(np.array([4, 5, 6]), np.array([10, 10, 10]))
    >>> f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
    '0.50 [0.25, 0.75]'

    Attributes:
      value: The value over all clients; nan if the denominators sum to 0.
      low: Lower end; nan with fewer than two clients that count.
      high: Upper end.
      standard_error: Standard error of `value`.
      clients: Number of clients that counted.
      effective_clients: n above; nan if no client counted.
    """

    value: float
    low: float
    high: float
    standard_error: float
    clients: int
    effective_clients: float = math.nan

    def to_json(self) -> dict[str, float | None]:
        """Returns `value`, `low` and `high`, with None for NaN, which JSON does not have.

        >>> Interval(0.5, math.nan, math.nan, math.nan, 1).to_json()
        {'value': 0.5, 'low': None, 'high': None}
        """
        ends = {"value": self.value, "low": self.low, "high": self.high}
        return {name: end if math.isfinite(end) else None for name, end in ends.items()}


def effective_number(weights: np.ndarray) -> float:
    """Returns Kish's effective number of `weights` >= 0: the equivalent number of equal weights.

    >>> effective_number(np.array([5.0, 5.0, 5.0])), effective_number(np.array([9.0, 0.0]))
    (3.0, 1.0)
    """
    squares = float(np.sum(np.square(weights, dtype=np.float64)))
    return float(np.sum(weights, dtype=np.float64)) ** 2 / squares if squares else math.nan


def ratio_interval(
    numerators: np.ndarray, denominators: np.ndarray, *, level: float = 0.95
) -> Interval:
    """Returns the interval of sum(numerators) / sum(denominators).

    >>> interval = ratio_interval(np.array([1, 2, 3]), np.array([10, 10, 10]))
    >>> round(interval.value, 4), round(interval.low, 4), round(interval.high, 4)
    (0.2, -0.0484, 0.4484)

    Args:
      numerators: [clients] finite.
      denominators: [clients] >= 0.
      level: Confidence level.
    """
    numerators, denominators = _checked_arrays(numerators, denominators)
    counted = denominators > 0
    value, without = _leave_one_out(numerators[counted], denominators[counted])
    return _interval(value, without, denominators[counted], level)


def clipped_to_shares(interval: Interval) -> Interval:
    """Returns an interval with its ends clipped to [0, 1], for a ratio that is a share.

    >>> clipped_to_shares(ratio_interval(np.array([1, 2, 3]), np.array([10, 10, 10]))).low
    0.0
    """
    low, high = (float(np.clip(end, 0.0, 1.0)) for end in (interval.low, interval.high))
    return interval._replace(low=low, high=high)


def difference_interval(
    first_numerators: np.ndarray,
    first_denominators: np.ndarray,
    second_numerators: np.ndarray,
    second_denominators: np.ndarray,
    *,
    level: float = 0.95,
) -> Interval:
    """Returns the interval of (first ratio - second ratio) on the same clients, [clients] each.

    A client counts unless both of its denominators are 0. Raises `ValueError` if lengths differ, a
    value is not finite, or a denominator is negative.
    """
    first = _checked_arrays(first_numerators, first_denominators)
    second = _checked_arrays(second_numerators, second_denominators)
    if first[0].shape != second[0].shape:
        raise ValueError(
            f"A paired difference needs the same clients, got {first[0].size} and {second[0].size}."
        )
    counted = (first[1] > 0) | (second[1] > 0)
    first_value, first_without = _leave_one_out(first[0][counted], first[1][counted])
    second_value, second_without = _leave_one_out(second[0][counted], second[1][counted])
    weights = first[1][counted] + second[1][counted]
    return _interval(first_value - second_value, first_without - second_without, weights, level)


def with_seeds(interval: Interval, of_seeds: Sequence[float]) -> Interval:
    """Extends the interval of a mean over trainings to other seeds.

    An interval over clients contains no information about another training's seed. The half-width
    over seeds is that of Student's mean of S values, t(S - 1) s / sqrt(S). The squares of the two
    half-widths add up, which covers at least the stated level, whichever of them is larger
    (Graybill and Wang 1980).

    >>> joint = with_seeds(Interval(0.22, 0.14, 0.29, 0.04, 1769), [0.09, 0.34])
    >>> round(joint.low, 2), round(joint.high, 2)
    (-1.37, 1.81)

    Args:
      interval: The interval over clients.
      of_seeds: The values of the single trainings, on the scale of `interval`. With one value the
        interval is returned unchanged.
    """
    seeds = len(of_seeds)
    if seeds < 2:
        return interval
    error = float(np.std(of_seeds, ddof=1)) / math.sqrt(seeds)
    reach = t_quantile(0.975, seeds - 1) * error
    return interval._replace(
        low=interval.value - math.hypot(interval.value - interval.low, reach),
        high=interval.value + math.hypot(interval.high - interval.value, reach),
        standard_error=math.hypot(interval.standard_error, error),
    )


def _checked_arrays(
    numerators: ArrayLike, denominators: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Returns both as float64 [clients], finite, and the denominators >= 0."""
    numerators = np.asarray(numerators, np.float64)
    denominators = np.asarray(denominators, np.float64)
    if numerators.ndim != 1 or numerators.shape != denominators.shape:
        raise ValueError(
            f"`numerators` and `denominators` must be vectors of one length, got shapes "
            f"{list(numerators.shape)} and {list(denominators.shape)}."
        )
    if not (np.isfinite(numerators).all() and np.isfinite(denominators).all()):
        raise ValueError("`numerators` and `denominators` must be finite.")
    if (denominators < 0).any():
        raise ValueError("`denominators` must be >= 0.")
    return numerators, denominators


def _leave_one_out(
    numerators: np.ndarray, denominators: np.ndarray
) -> tuple[np.floating, np.ndarray]:
    """Returns the ratio over all clients, and the ratios without each client."""
    numerator, denominator = numerators.sum(), denominators.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return numerator / denominator, (numerator - numerators) / (denominator - denominators)


def _interval(
    value: np.floating, without: np.ndarray, weights: np.ndarray, level: float
) -> Interval:
    """Returns the jackknife interval of a ratio.

    The degrees of freedom shrink with unequal weights, and with outliers among the squares.

    Args:
      value: The ratio over all clients.
      without: The ratios without each client, [clients].
      weights: The clients' denominators, [clients].
      level: Probability of the interval, in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1), got {level}.")
    clients = without.size
    effective = effective_number(weights)
    if clients < 2:
        return Interval(float(value), math.nan, math.nan, math.nan, clients, effective)
    squares = (without - without.mean()) ** 2
    spread = float(np.sum(squares))
    error = math.sqrt((clients - 1) / clients * spread)
    freedom = effective - 1
    excess = clients * float(np.sum((squares / spread) ** 2)) - 3 if spread > 0 else 0.0
    if excess > 0:
        freedom = min(freedom, clients / excess)
    reach = t_quantile((1 + level) / 2, max(freedom, 1.0)) * error
    return Interval(
        float(value), float(value - reach), float(value + reach), error, clients, effective
    )
