"""Lower bounds on epsilon that texts of the two models prove, without assuming a Pareto tail.

A tail fitted to texts of one model cannot show a secret that only the other model writes: a phrase
of probability 1e-3 with the user and 1e-6 without is in no sample of the model without. But the
other model's texts show it. With s drawn from p,

    delta(eps) = sum_s (p(s) - e^eps p'(s))_+ = E X,   X = (1 - e^eps p'(s) / p(s))_+ in [0, 1],

so the mean of X estimates delta(eps) without any tail. Hoeffding's bound for means of values in
[0, 1],

    P(mean >= m) <= exp(-n KL(m || E X))   for m >= E X,

turns n values into a lower end: the true delta(eps) is above it with probability 95 %. X falls with
eps, and so does the lower end. The largest eps at which the lower end exceeds delta is therefore a
lower bound on epsilon at that delta, also with 95 %, without a correction for the search.

The bound says nothing about phrases that are in no text. n texts lack a phrase of probability q
with probability (1 - q)^n, so phrases below the detection limit q = 1 - 0.05^(1/n), about 3 / n,
may all be missing.

Sources: Hoeffding 1963, Theorem 1 (JASA 58); the identity: `tail_statistics.py`. Pure NumPy.
"""

import dataclasses
import math

import numpy as np

from tff_keyboard_lab.audits import tail_statistics
from tff_keyboard_lab.audits.tail_statistics import TailFit

CONFIDENCE = 0.95
# Values of epsilon at which the tail's delta and the direct delta are compared.
_GRID = np.concatenate([np.linspace(0, 1, 21), np.linspace(1.1, 20, 190)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refutation:
    """Evidence against a tail: at `epsilon`, delta is larger than the tail allows, with 95 %."""

    epsilon: float  # epsilon with the largest ratio of the two deltas
    delta_tail: float  # delta of the tail with its exponent at the lower end
    delta_direct_low: float  # lower end of delta from the other model's texts


def detection_limit(num_texts: int) -> float:
    """Returns the probability of a phrase that a sample of `num_texts` texts contains with 95 %.

    >>> f"{detection_limit(10_000):.4g}"
    '0.0002995'
    """
    return -math.expm1(math.log1p(-CONFIDENCE) / num_texts)


def texts_needed(delta: float) -> int:
    """Returns the smallest number of texts whose `detection_limit` is at most `delta`.

    >>> texts_needed(1e-5)
    299572
    """
    return math.ceil(math.log1p(-CONFIDENCE) / math.log1p(-delta))


def mean_lower_bound(mean: float, count: int) -> float:
    """Returns the 95 % lower end of the expectation of values in [0, 1].

    Args:
      mean: Mean of the values.
      count: Number of values.

    >>> round(mean_lower_bound(9e-4, 10_000), 5)
    0.00035
    >>> mean_lower_bound(0.0, 10_000)
    0.0
    """
    if not 0 <= mean <= 1:
        raise ValueError(f"`mean` must be in [0, 1], got {mean!r}.")
    if count < 1:
        raise ValueError(f"`count` must be >= 1, got {count}.")
    allowed = -math.log1p(-CONFIDENCE) / count
    low, high = 0.0, mean  # KL(mean || low) > allowed >= KL(mean || high)
    if mean == 0:
        return 0.0
    for _ in range(1200):  # halvings, down to the smallest double: few texts allow tiny bounds
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _divergence(mean, middle) > allowed:
            low = middle
        else:
            high = middle
    return low


def direct_delta_lower_bound(log_ratios: np.ndarray, epsilon: float) -> float:
    """Returns the 95 % lower end of delta(eps) from texts of p.

    `log_ratios` are the argument of `direct_delta`.
    """
    mean = min(1.0, tail_statistics.direct_delta(log_ratios, epsilon))
    return mean_lower_bound(mean, len(log_ratios))


def direct_epsilon_lower_bound(log_ratios: np.ndarray, delta: float) -> float:
    """Returns the 95 % lower end of epsilon at `delta`.

    It is the largest eps at which the lower end of delta(eps) exceeds `delta`, or 0 if the texts
    prove nothing. A result of 0 is not evidence of privacy.
    """
    if not 0 < delta < 1:
        raise ValueError(f"`delta` must be in (0, 1), got {delta}.")
    if direct_delta_lower_bound(log_ratios, 0.0) <= delta:
        return 0.0
    low, high = 0.0, max(0.0, -float(np.min(log_ratios)))  # at `high` every X is 0
    while high - low > 1e-6 * max(1.0, high):
        middle = (low + high) / 2
        if direct_delta_lower_bound(log_ratios, middle) > delta:
            low = middle
        else:
            high = middle
    return low


def refutation(sample: np.ndarray, fit: TailFit, opposite: np.ndarray) -> Refutation | None:
    """Returns how far the other model's texts contradict a tail, or None if they do not.

    The comparison uses a grid of eps up to 20, at 95 % each. The tail has its exponent at the lower
    end of its interval, so that only contradictions of the cautious figure count.

    Args:
      sample: [n] log-ratios from which `fit` was made.
      fit: The tail.
      opposite: [m] log-ratios of the texts of the opposite direction.
    """
    careful = fit.conservative()
    worst: Refutation | None = None
    for epsilon in _GRID:
        direct = direct_delta_lower_bound(opposite, float(epsilon))
        if direct == 0:
            break  # it is 0 for all larger values of epsilon, too
        tail = tail_statistics.estimated_delta(sample, careful, float(epsilon))
        if direct > tail and (
            worst is None or direct * worst.delta_tail > worst.delta_direct_low * tail
        ):
            worst = Refutation(epsilon=float(epsilon), delta_tail=tail, delta_direct_low=direct)
    return worst


def _divergence(first: float, second: float) -> float:
    """Returns the KL divergence of two coins in nats. `second` is in (0, 1) or equal to `first`."""
    if second <= 0:
        return math.inf
    total = 0.0
    if first > 0:
        total += first * math.log(first / second)
    if first < 1:
        total += (1 - first) * (math.log1p(-first) - math.log1p(-second))
    return total
