"""Lower bounds on epsilon that texts of the two models prove, without assuming a Pareto tail.

A tail fitted to texts of one model cannot see a secret that only the other model writes: a phrase
of probability 1e-3 with the person and 1e-6 without occurs in no sample of the model without. But
the other model's texts show it. With s drawn from p,

    delta(eps) = sum_s (p(s) - e^eps p'(s))_+ = E X,   X = (1 - e^eps p'(s) / p(s))_+ in [0, 1],

so the mean of X estimates delta(eps) with no tail at all, and Hoeffding's bound for means of values
in [0, 1],

    P(mean >= m) <= exp(-n KL(m || E X))   for m >= E X,

turns n values into a lower end: the true delta(eps) lies above it with probability 95 %. Because X
falls with eps, so does the lower end, and the largest eps at which it exceeds delta is a lower
bound on epsilon at that delta with the same 95 %: no allowance for the search is due.

It cannot bound what no text shows: n texts have no phrase of probability q with probability
(1 - q)^n, so those below the detection limit q = 1 - 0.05^(1/n), about 3 / n, may all be missing.

Sources: Hoeffding 1963, Theorem 1 (JASA 58); the identity: `tail_statistics.py`. Pure NumPy.
"""

import dataclasses
import math

import numpy as np

from tff_keyboard.audits import tail_statistics
from tff_keyboard.audits.tail_statistics import TailFit

CONFIDENCE = 0.95
# Where the tail's delta and the direct one are compared.
_GRID = np.concatenate([np.linspace(0, 1, 21), np.linspace(1.1, 20, 190)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refutation:
    """Samples against a tail: at `epsilon` delta is larger than the tail allows, with 95 %."""

    epsilon: float  # epsilon where they disagree most (by the ratio)
    delta_tail: float  # what the tail, its exponent at the lower end, says there
    delta_direct_low: float  # the lower end of what the other model's texts say there


def detection_limit(num_texts: int) -> float:
    """The probability of texts of which a sample of `num_texts` has one with 95 %.

    >>> f"{detection_limit(10_000):.4g}"
    '0.0002995'
    """
    return -math.expm1(math.log1p(-CONFIDENCE) / num_texts)


def texts_needed(delta: float) -> int:
    """The fewest texts whose `detection_limit` is `delta` or less.

    >>> texts_needed(1e-5)
    299572
    """
    return math.ceil(math.log1p(-CONFIDENCE) / math.log1p(-delta))


def mean_lower_bound(mean: float, count: int) -> float:
    """The lower end of the expectation of values in [0, 1], of whose `count` the mean is `mean`.

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
    """95 % lower end of delta(eps), from texts of p; `log_ratios` as `direct_delta` takes them."""
    mean = min(1.0, tail_statistics.direct_delta(log_ratios, epsilon))
    return mean_lower_bound(mean, len(log_ratios))


def direct_epsilon_lower_bound(log_ratios: np.ndarray, delta: float) -> float:
    """95 % lower end of epsilon at `delta`: the largest eps at which delta(eps) is surely larger.

    0 where the texts prove nothing: no privacy follows from that.
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
    """Whether the other model's texts contradict a tail.

    `sample` [n] are the log-ratios that `fit` was made from, `opposite` [m] those of the opposite
    direction's texts. Compared on a grid of eps up to 20, at 95 % each; with the tail's exponent at
    the lower end of its interval, so that only what the cautious figure denies counts.
    """
    careful = fit.conservative()
    worst: Refutation | None = None
    for epsilon in _GRID:
        direct = direct_delta_lower_bound(opposite, float(epsilon))
        if direct == 0:
            break  # it stays 0
        tail = tail_statistics.estimated_delta(sample, careful, float(epsilon))
        if direct > tail and (
            worst is None or direct * worst.delta_tail > worst.delta_direct_low * tail
        ):
            worst = Refutation(epsilon=float(epsilon), delta_tail=tail, delta_direct_low=direct)
    return worst


def _divergence(first: float, second: float) -> float:
    """KL divergence of two coins, in nats; `second` in (0, 1) or equal to `first`."""
    if second <= 0:
        return math.inf
    total = 0.0
    if first > 0:
        total += first * math.log(first / second)
    if first < 1:
        total += (1 - first) * (math.log1p(-first) - math.log1p(-second))
    return total
