"""Perplexity from sums of negative log-likelihood.

    perplexity = exp(sum of -log p(target) / number of targets)

`nll` is in nats. "Without OOV" leaves the positions whose target is OOV out of both sums; the
model still spreads probability over the OOV row, as it does when it types.
"""

import math

import numpy as np


def perplexity(nll: float, tokens: int) -> float:
    """`exp(nll / tokens)`; nan without tokens, inf where it overflows.

    >>> round(perplexity(nll=6.0, tokens=3), 4)
    7.3891
    >>> perplexity(0.0, 0)
    nan
    """
    if tokens == 0:
        return math.nan
    with np.errstate(over="ignore"):
        return float(np.exp(np.float64(nll) / tokens))
