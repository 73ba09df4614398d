"""The number of attackers in a random cohort, and the number that a robust aggregator tolerates.

    P(X > f),  X ~ Binomial(M, a)

is the probability that a cohort of M clients has more than f attackers, if each seat goes to an
attacker with probability a, the attackers' share of all clients. Cohorts are drawn without
replacement, so the number of attackers is hypergeometric. Its tails are thinner: for f >= M a, the
binomial probability is an upper bound (Uhlmann 1966). This assumes that attackers drop out and
report as other clients do. A cohort of M clients tolerates at most (M - 1) // 2 attackers, because
no aggregator can tell a majority from the honest clients.
"""

import bisect
import math

RISK = 1e-3  # allowed probability of a cohort with more attackers than are tolerated
MAX_SHARE = 0.49  # largest share for which `smallest_cohort` searches


def excess_probability(clients: int, share: float, tolerated: int) -> float:
    """Returns the probability that a cohort has more than `tolerated` attackers.

    >>> f"{excess_probability(20, 0.3, 9):.3f}"
    '0.048'

    Args:
      clients: Clients in the cohort, M >= 0.
      share: Attackers' share of all clients, in [0, 1].
      tolerated: Number of attackers that the aggregator tolerates, f >= 0.

    Raises:
      ValueError: If an argument is out of range.
    """
    if clients < 0 or tolerated < 0:
        raise ValueError(f"`clients` and `tolerated` must be >= 0, got {clients} and {tolerated}.")
    if not 0 <= share <= 1:
        raise ValueError(f"`share` must be in [0, 1], got {share!r}.")
    if share in (0, 1):
        return float(share == 1 and clients > tolerated)
    log_share, log_complement = math.log(share), math.log1p(-share)
    terms = (
        math.exp(
            math.lgamma(clients + 1)
            - math.lgamma(n + 1)
            - math.lgamma(clients - n + 1)
            + n * log_share
            + (clients - n) * log_complement
        )
        for n in range(tolerated + 1, clients + 1)
    )
    return min(math.fsum(terms), 1.0)


def minority(clients: int) -> int:
    """Returns the largest number of attackers that are fewer than half of a cohort."""
    return max((clients - 1) // 2, 0)


def tolerated_attackers(clients: int, share: float) -> int:
    """Returns f: the least number with an excess probability of at most `RISK`, or the minority.

    >>> [tolerated_attackers(clients, 0.1) for clients in (20, 40, 100)]
    [7, 11, 20]
    """
    for number in range(minority(clients)):
        if excess_probability(clients, share, number) <= RISK:
            return number
    return minority(clients)


def largest_share(clients: int, tolerated: int) -> float:
    """Returns the largest share of attackers that exceed `tolerated` with probability <= `RISK`.

    Rounded down to three digits after the point.

    >>> largest_share(20, 9)
    0.177

    Args:
      clients: Clients in the cohort, >= 1.
      tolerated: Number of attackers that the aggregator tolerates.
    """
    low, high = 0, 1000  # thousandths
    while high - low > 1:
        middle = (low + high) // 2
        if excess_probability(clients, middle / 1000, tolerated) <= RISK:
            low = middle
        else:
            high = middle
    return low / 1000


def smallest_cohort(share: float, *, above: int = 0) -> int:
    """Returns the least odd cohort size > `above` that has a majority of attackers rarely enough.

    Odd sizes are best: a cohort of 10 tolerates 4 attackers, as a cohort of 9 does. For them, the
    probability decreases with the size (Condorcet's jury theorem).

    >>> smallest_cohort(0.3)
    55

    Args:
      share: Attackers' share of all clients, in (0, 0.49]. With 0.49 it takes 23,869 clients.
      above: Lower bound on the result, exclusive.

    Raises:
      ValueError: If `share` is out of range.
    """
    if not 0 < share <= MAX_SHARE:
        raise ValueError(f"`share` must be in (0, {MAX_SHARE}], got {share!r}.")
    half = bisect.bisect_left(
        range(20_000), True, key=lambda n: excess_probability(2 * n + 1, share, n) <= RISK
    )
    return max(2 * half + 1, above + 1 + above % 2)
