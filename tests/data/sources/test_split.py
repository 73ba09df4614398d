"""Populations by hash: stable, close to the requested shares, independent of other choices."""

import collections

import hypothesis
import numpy as np
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.sources import split

USERS = [f"user {index}" for index in range(20_000)]


def populations(seed, users=USERS):
    return [
        split.population_of(user, seed=seed, validation_fraction=0.2, held_out_fraction=0.1)
        for user in users
    ]


def test_shares_are_near_the_fractions():
    counts = collections.Counter(populations(3))
    # Standard deviations: sqrt(n p (1 - p)) = 57 and 42; five of them.
    assert abs(counts["validation"] - 4000) < 5 * 57
    assert abs(counts["held_out"] - 2000) < 5 * 42


def test_seeds_give_unrelated_splits():
    both = np.mean([a == b == "validation" for a, b in zip(*map(populations, (1, 2)), strict=True)])
    assert abs(both - 0.04) < 5 * np.sqrt(0.04 * 0.96 / len(USERS))


def test_choosing_users_does_not_choose_their_population():
    selected = split.choose_users(USERS, 5000, seed=1)
    share = np.mean([population == "held_out" for population in populations(1, selected)])
    assert abs(share - 0.1) < 5 * np.sqrt(0.1 * 0.9 / 5000)


@hypothesis.given(users=st.sets(st.text(max_size=5), max_size=20), count=st.integers(1, 25))
@examples(50)
def test_choice_does_not_depend_on_the_order_and_grows_by_adding(users, count):
    ordered = sorted(users)
    selected = split.choose_users(ordered, count, seed=7)
    assert selected == split.choose_users(reversed(ordered), count, seed=7)
    assert selected == sorted(selected)
    assert len(selected) == min(count, len(users))
    assert set(selected) <= set(split.choose_users(ordered, count + 1, seed=7))


@hypothesis.given(user=st.text(max_size=20), seed=st.integers(0, 2**70))
@examples(50)
def test_fraction_is_in_the_unit_interval(user, seed):
    assert 0 <= split.user_fraction(user, seed=seed, purpose="any") < 1
