"""Probabilities of attackers in cohorts against exact fractions."""

import fractions
import math

import numpy as np
import pytest
from scipy import stats

from tff_keyboard.aggregators import attackers_in_cohort as in_cohort


def exact(clients, share, tolerated):
    p = fractions.Fraction(share)
    return sum(
        math.comb(clients, n) * p**n * (1 - p) ** (clients - n)
        for n in range(tolerated + 1, clients + 1)
    )


@pytest.mark.parametrize("share", [0.001, 0.1, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("clients", [1, 2, 20, 101])
def test_excess_probability_equals_exact_fractions(share, clients):
    for tolerated in range(0, clients + 2, 3):
        found = in_cohort.excess_probability(clients, share, tolerated)
        assert found == pytest.approx(float(exact(clients, share, tolerated)), rel=1e-10)


def test_limiting_cases():
    assert in_cohort.excess_probability(0, 0.3, 0) == 0
    assert in_cohort.excess_probability(20, 0, 0) == 0
    assert in_cohort.excess_probability(20, 1, 19) == 1
    assert in_cohort.excess_probability(20, 1, 20) == 0
    assert [in_cohort.minority(clients) for clients in (0, 1, 2, 3, 4)] == [0, 0, 0, 1, 1]
    assert in_cohort.excess_probability(24_000, 0.49, 11_999) < in_cohort.RISK


def test_draws_without_replacement_have_thinner_tails():
    """The binomial probability is an upper bound for the number that a cohort tolerates."""
    for population in (40, 100, 231, 5000):
        for share in (0.05, 0.1, 0.3, 0.45):
            for clients in (1, 5, 10, 20, 40):
                attackers = round(share * population)
                p = attackers / population
                for tolerated in range(math.ceil(clients * p), clients + 1):
                    drawn = stats.hypergeom.sf(tolerated, population, attackers, clients)
                    bound = in_cohort.excess_probability(clients, p, tolerated)
                    assert drawn <= bound * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("clients", [1, 2, 5, 10, 20, 100])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.45])
def test_tolerated_attackers_is_the_least_number_or_the_minority(clients, share):
    found = in_cohort.tolerated_attackers(clients, share)
    enough = [n for n in range(clients) if exact(clients, share, n) <= in_cohort.RISK]
    assert found == min(enough[0] if enough else clients, in_cohort.minority(clients))


@pytest.mark.parametrize("share", [0.0005, 0.05, 0.1, 0.2, 0.3, 0.4])
def test_smallest_cohort(share):
    found = in_cohort.smallest_cohort(share)
    majority = stats.binom.sf([(n - 1) // 2 for n in range(1, 400)], np.arange(1, 400), share)
    assert found == 1 + np.argmax(majority <= in_cohort.RISK)
    above = in_cohort.smallest_cohort(share, above=found + 1)
    assert above == found + 2
    assert exact(above, share, in_cohort.minority(above)) <= in_cohort.RISK


@pytest.mark.parametrize("clients, tolerated", [(1, 0), (5, 2), (20, 2), (20, 9), (100, 10)])
def test_largest_share(clients, tolerated):
    found = in_cohort.largest_share(clients, tolerated)
    assert exact(clients, found, tolerated) <= in_cohort.RISK
    assert exact(clients, found + 0.001, tolerated) > in_cohort.RISK * (1 - 1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: in_cohort.excess_probability(-1, 0.1, 0),
        lambda: in_cohort.excess_probability(5, 0.1, -1),
        lambda: in_cohort.excess_probability(5, 1.1, 0),
        lambda: in_cohort.excess_probability(5, math.nan, 0),
        lambda: in_cohort.smallest_cohort(0.0),
        lambda: in_cohort.smallest_cohort(0.495),
    ],
)
def test_arguments_out_of_range_are_rejected(call):
    with pytest.raises(ValueError, match="must be"):
        call()
