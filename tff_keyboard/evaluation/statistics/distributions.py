"""Quantiles of Student's t, without SciPy.

SciPy takes 110 MB, and the check of an exported model runs without it. For Student's t with n
degrees of freedom and the regularised incomplete beta function I,

    P(|T| > t) = I_x(n / 2, 1 / 2),   x = n / (n + t^2)

where I is computed from its continued fraction. Source: Abramowitz & Stegun 1964, 26.5.8 and
26.7.1; the fraction is evaluated by Lentz 1976, Applied Optics 15.
"""

import math
from collections.abc import Callable

_MAX_TERMS = 10_000  # terms of the fraction; about sqrt(n) are needed
_TINY, _LARGEST = 1e-300, 1e300


def t_quantile(probability: float, freedom: float) -> float:
    """Returns t with P(T < t) = `probability`, in (0, 1), for (also fractional) `freedom` > 0.

    >>> round(t_quantile(0.975, 10), 6), round(t_quantile(0.25, 1), 6)
    (2.228139, -1.0)
    """
    if not (0 < probability < 1 and freedom > 0):
        raise ValueError(
            f"`probability` must be in (0, 1) and `freedom` > 0, got {probability} and {freedom}."
        )
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    tails = 2 * (1 - probability)
    high = 1.0
    while _t_tails(high, freedom) > tails and high < _LARGEST:
        high *= 2
    low = 0.0 if high == 1.0 else high / 2
    return root(lambda t: tails - _t_tails(t, freedom), low, high)


def root(
    function: Callable[[float], float], low: float, high: float, *, within: float = 1e-14
) -> float:
    """Finds the root of a function that increases through 0 between `low` and `high`.

    Uses the false position, halved when it stays on one side (Illinois: Dowell & Jarratt 1971, BIT
    11). `within` is the allowed error, relative above 1 and absolute below.

    >>> round(root(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    at_low, at_high = function(low), function(high)
    if at_low >= 0:
        return low
    side = 0
    while high - low > within * max(1.0, abs(high)) and at_high != 0:
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < middle < high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
        value = function(middle)
        if value > 0:
            high, at_high, at_low = middle, value, at_low / (2 if side > 0 else 1)
            side = 1
        else:
            low, at_low, at_high = middle, value, at_high / (2 if side < 0 else 1)
            side = -1
    return high


def _t_tails(t: float, freedom: float) -> float:
    """Returns P(|T| > t)."""
    square = t * t
    return _beta_share(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


def _beta_share(a: float, b: float, x: float, complement: float) -> float:
    """Returns I_x(a, b), given `complement` = 1 - x to full precision."""
    if x > (a + 1) / (a + b + 2):  # the fraction of the other tail is shorter
        return 1 - _beta_share(b, a, complement, x)
    if x == 0:
        return 0.0
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(log_front) * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    """Returns the continued fraction K in I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) * K.

    K = 1 / (1 + d_1 / (1 + d_2 / ...)), as in 26.5.8, with two terms per iteration. It converges
    fast for x <= (a + 1) / (a + b + 2); the caller mirrors larger x.
    """

    def large(value: float) -> float:
        """Replaces values near zero, as Lentz's method requires."""
        return value if abs(value) > _TINY else _TINY

    above, below = 1.0, 1 / large(1 - (a + b) * x / (a + 1))
    value = below
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            below = 1 / large(1 + term * below)
            above = large(1 + term / above)
            value *= above * below
        if abs(above * below - 1) < 1e-16:
            break
    return value
