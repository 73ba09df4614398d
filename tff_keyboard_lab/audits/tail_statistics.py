"""The Pareto tail of probability ratios, and the (epsilon, delta) that follow from it.

A text s has the probability p(s) under one model and p'(s) under another, which was trained without
one of the users. Draw s from p' and let c = p(s) / p'(s). For every set S of texts

    p(S) - e^eps p'(S)  <=  sum_s (p(s) - e^eps p'(s))_+  =  E[(c - e^eps)_+]  =  delta(eps),

with equality for S = {c > e^eps}: delta(eps) is exactly the smallest delta for which a text drawn
from p is (eps, delta)-indistinguishable from one drawn from p', in this direction. If the tail is
Pareto, P(c > x) = C x^-alpha for x >= u with alpha > 1, then for e^eps >= u

    delta(eps) = integral of P(c > x) from e^eps  =  C / (alpha - 1) * e^(-eps (alpha - 1)).

alpha is Hill's estimate from the largest values. Lilliefors' test checks whether log c above the
threshold may be exponential, as it is for a Pareto tail. All computations use log c, natural
logarithms, so that no ratio overflows. The result is an estimate from samples, not a guarantee:
docs/privacy/tail_audit.md lists its limits.

Sources: Popov et al. 2018, https://arxiv.org/abs/1712.07473, section 4 and appendix (eqs. 7, 13);
Hill 1975 (Annals of Statistics 3); Lilliefors 1969 (JASA 64).
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from tff_keyboard_lab.audits.lilliefors import TRIALS, lilliefors_exponential

# Shares of the sample that are tried as its tail, largest first.
TAIL_FRACTIONS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
MIN_TAIL = 20  # values of a tail; with fewer, interval and test are not reliable
SIGNIFICANCE = 0.05  # a tail is rejected at a p-value below it

_CONFIDENCE = 0.95


class HillEstimate(NamedTuple):
    """The exponent of a tail with its 95 % interval, and ln u.

    It is infinite for a single value.
    """

    alpha: float
    low: float
    high: float
    log_threshold: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailFit:
    """One tail of a sample of log-ratios: its exponent, and a test whether it may be Pareto."""

    num_samples: int
    num_tail: int
    log_threshold: float  # ln u; P(c > u) is estimated by k / n
    alpha: float
    alpha_low: float  # lower end of its 95 % interval: the heavier tail, the conservative choice
    alpha_high: float
    log_scale: float
    statistic: float  # Lilliefors' distance of the tail from an exponential distribution
    p_value: float

    def conservative(self) -> "TailFit":
        """Returns the same tail with its exponent at the lower end of the interval."""
        log_scale = pareto_log_scale(
            self.alpha_low,
            num_tail=self.num_tail,
            num_samples=self.num_samples,
            log_threshold=self.log_threshold,
        )
        return dataclasses.replace(self, alpha=self.alpha_low, log_scale=log_scale)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailSearch:
    """All tails that were tried on one sample."""

    tried: tuple[TailFit, ...]  # largest tail first, up to and with the first that was not rejected
    # Whether every ratio is exactly 1. Then no tail was tried, and delta is 0 for every eps.
    no_difference: bool = False

    @property
    def fit(self) -> TailFit | None:
        """The largest tail that is not rejected, or None.

        None without `no_difference` means that there is no estimate, not that eps is 0.
        """
        accepted = [tail for tail in self.tried if tail.p_value >= SIGNIFICANCE]
        return accepted[0] if accepted else None


def hill_estimate(log_values: np.ndarray, num_tail: int) -> HillEstimate:
    """Estimates alpha of P(c > x) ~ x^-alpha from the k largest of n values.

        1 / alpha = mean over i <= k of (ln c_(i) - ln c_(k+1)),    c_(1) >= c_(2) >= ...

    Above the threshold ln c - ln u is exponential with the rate alpha, so alpha times the sum of k
    of them is a gamma variable. The interval uses its quantiles and is exact for a Pareto tail.

    Args:
      log_values: [n] finite ln c in any order.
      num_tail: k, 1 <= k < n.
    """
    ordered = _ordered(log_values)
    excesses, log_threshold = _excesses(ordered, num_tail)
    mean = float(excesses.mean())
    alpha = 1.0 / mean if mean > 0 else math.inf
    low, high = (
        float(alpha * stats.gamma.ppf(share, num_tail) / num_tail)
        for share in ((1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2)
    )
    return HillEstimate(alpha, low, high, log_threshold)


def pareto_log_scale(
    alpha: float, *, num_tail: int, num_samples: int, log_threshold: float
) -> float:
    """Returns ln C of P(c > x) = C x^-alpha, from P(c > u) = k / n."""
    return math.log(num_tail / num_samples) + alpha * log_threshold


def tail_delta(epsilon: float, *, alpha: float, log_scale: float) -> float:
    """Returns delta(eps) = C / (alpha - 1) * e^(-eps (alpha - 1)), for an e^eps in the tail.

    With alpha <= 1 the expectation does not exist, and the result is infinite.
    """
    if alpha <= 1:
        return math.inf
    if math.isinf(alpha):  # no value is above the threshold
        return 0.0
    exponent = log_scale - math.log(alpha - 1) - epsilon * (alpha - 1)
    return math.exp(exponent) if exponent < 700 else math.inf


def tail_epsilon(delta: float, *, alpha: float, log_scale: float) -> float:
    """Returns the eps >= 0 at which `tail_delta` is `delta`; 0 if it is smaller everywhere.

    >>> alpha, log_scale = 15.8, math.log(3.25)  # the paper's
    >>> round(tail_epsilon(1e-5, alpha=alpha, log_scale=log_scale), 2)
    0.68
    """
    _require_delta(delta)
    if alpha <= 1:
        return math.inf
    return max(0.0, (log_scale - math.log(alpha - 1) - math.log(delta)) / (alpha - 1))


def estimated_delta(log_ratios: np.ndarray, fit: TailFit, epsilon: float) -> float:
    """Returns delta(eps) = E[(c - e^eps)_+]: from the sample up to the threshold, Pareto beyond it.

    `log_ratios` [n] is the sample from which `fit` was made. The result is at most 1; a larger
    estimate has no meaning.
    """
    if epsilon < 0:
        raise ValueError(f"`epsilon` must be >= 0, got {epsilon}.")
    start = max(epsilon, fit.log_threshold)
    delta = tail_delta(start, alpha=fit.alpha, log_scale=fit.log_scale)
    if epsilon < fit.log_threshold:
        body = np.exp(np.clip(log_ratios, epsilon, fit.log_threshold)) - math.exp(epsilon)
        delta += float(body.mean())
    return min(1.0, delta)


def estimated_epsilon(log_ratios: np.ndarray, fit: TailFit, delta: float) -> float:
    """Returns the smallest eps >= 0 with `estimated_delta` <= `delta`."""
    _require_delta(delta)
    low, high = 0.0, max(0.0, fit.log_threshold)
    if estimated_delta(log_ratios, fit, high) > delta:  # it lies in the tail
        return tail_epsilon(delta, alpha=fit.alpha, log_scale=fit.log_scale)
    if estimated_delta(log_ratios, fit, low) <= delta:
        return 0.0
    while high - low > 1e-9 * high:  # delta(low) > delta >= delta(high), and it falls
        middle = (low + high) / 2
        if estimated_delta(log_ratios, fit, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def direct_delta(log_ratios: np.ndarray, epsilon: float) -> float:
    """Returns the same delta(eps) from texts drawn from the other model, without any tail.

        sum_s (p(s) - e^eps p'(s))_+  =  E over s from p of (1 - e^eps p'(s) / p(s))_+

    It is an average of values in [0, 1], so it needs no assumption and has a small error, about
    sqrt(delta / n), but it cannot show a delta below 1 / n. It can check the tail's figure for
    larger values.

    Args:
      log_ratios: [n] ln p'(s) / p(s) of texts from p, that is, of the *opposite* direction.
      epsilon: eps, >= 0.
    """
    if epsilon < 0:
        raise ValueError(f"`epsilon` must be >= 0, got {epsilon}.")
    exponents = np.minimum(0.0, epsilon + np.asarray(log_ratios, np.float64))
    return float(np.abs(np.expm1(exponents)).mean())  # 1 - e^x for x <= 0


def fit_tail(log_ratios: np.ndarray, *, seed: int, trials: int = TRIALS) -> TailSearch:
    """Finds the largest tail of a sample, [n] finite ln c, that may be Pareto.

    Tails of `TAIL_FRACTIONS` of the sample are tested in turn, largest first, and the first that
    Lilliefors' test does not reject is taken. A large tail gives a narrow interval; a tail that
    reaches into the body gives a wrong exponent. Each has at least `MIN_TAIL` values.

    Raises:
      ValueError: If the sample is too small for any tail, or an argument is not valid.
    """
    ordered = _ordered(log_ratios)
    sizes = [round(f * len(ordered)) for f in TAIL_FRACTIONS]
    sizes = [size for size in sizes if MIN_TAIL <= size < len(ordered)]
    if not sizes:
        raise ValueError(
            f"{len(ordered)} ratios are too few: a tail of {TAIL_FRACTIONS[0]:.0%} needs "
            f"{MIN_TAIL} values. Draw at least {math.ceil(MIN_TAIL / TAIL_FRACTIONS[0])} texts."
        )
    if not ordered.any():
        return TailSearch(tried=(), no_difference=True)
    tried: list[TailFit] = []
    for size in sizes:
        tried.append(_fit(ordered, size, seed, trials))
        if tried[-1].p_value >= SIGNIFICANCE:
            break
    return TailSearch(tried=tuple(tried))


def _fit(ordered: np.ndarray, num_tail: int, seed: int, trials: int) -> TailFit:
    """Fits a Pareto tail to the largest `num_tail` of the ordered ratios, and tests the fit."""
    hill = hill_estimate(ordered, num_tail)
    excesses, log_threshold = _excesses(ordered, num_tail)
    statistic, p_value = lilliefors_exponential(excesses, seed=seed, trials=trials)
    return TailFit(
        num_samples=len(ordered),
        num_tail=num_tail,
        log_threshold=log_threshold,
        alpha=hill.alpha,
        alpha_low=hill.low,
        alpha_high=hill.high,
        log_scale=pareto_log_scale(
            hill.alpha, num_tail=num_tail, num_samples=len(ordered), log_threshold=log_threshold
        ),
        statistic=statistic,
        p_value=p_value,
    )


def _ordered(log_values: np.ndarray) -> np.ndarray:
    """Returns [n] float64, largest first."""
    log_values = np.asarray(log_values, np.float64)
    if log_values.ndim != 1 or not np.isfinite(log_values).all():
        raise ValueError("Log-ratios must be a list of finite values.")
    return np.sort(log_values)[::-1]


def _excesses(ordered: np.ndarray, num_tail: int) -> tuple[np.ndarray, float]:
    """Returns `(ln c_(i) - ln u for i <= k, ln u)` with u = c_(k+1)."""
    if not 1 <= num_tail < len(ordered):
        raise ValueError(
            f"`num_tail` must be >= 1 and below the {len(ordered)} values, got {num_tail}."
        )
    log_threshold = float(ordered[num_tail])
    return ordered[:num_tail] - log_threshold, log_threshold


def _require_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"`delta` must be in (0, 1), got {delta}.")
