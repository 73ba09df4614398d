"""The worst case of tree aggregation against brute force over all participation patterns."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.privacy.mechanisms.tree_sensitivity import tree_sensitivity_squared


def nodes_of(leaves):
    """Returns [start, end) of every complete dyadic block of a tree."""
    size = 1
    while size <= leaves:
        for start in range(0, leaves - size + 1, size):
            yield start, start + size
        size *= 2


def brute_force(rounds, min_separation, max_participations):
    nodes = list(nodes_of(rounds))
    best = 0
    for count in range(1, max_participations + 1):
        for pattern in itertools.combinations(range(rounds), count):
            if all(b - a >= min_separation for a, b in itertools.pairwise(pattern)):
                value = sum(sum(a <= r < b for r in pattern) ** 2 for a, b in nodes)
                best = max(best, value)
    return best


@examples(60)
@given(
    rounds=st.integers(1, 13),
    min_separation=st.integers(1, 9),
    max_participations=st.integers(1, 5),
)
def test_equals_brute_force(rounds, min_separation, max_participations):
    assert tree_sensitivity_squared(
        rounds, min_separation=min_separation, max_participations=max_participations
    ) == brute_force(rounds, min_separation, max_participations)


@pytest.mark.parametrize("rounds, separation, most", [(64, 7, 4), (37, 3, 5), (50, 20, 3)])
def test_equals_tensorflow_privacy(rounds, separation, most):
    tree = pytest.importorskip("tensorflow_privacy.privacy.analysis.tree_aggregation_accountant")
    theirs = tree.compute_zcdp_single_tree(1.0, rounds, most, separation - 1) * 2
    assert theirs == tree_sensitivity_squared(
        rounds, min_separation=separation, max_participations=most
    )


def test_everyone_in_every_round_is_the_sum_of_squared_block_sizes():
    assert tree_sensitivity_squared(8, min_separation=1, max_participations=8) == 8 + 16 + 32 + 64


@pytest.mark.parametrize(
    "rounds, separation, most, words",
    [
        (0, 1, 1, "`rounds` must be >= 1, got 0"),
        (4, 0, 1, "`min_separation` must be >= 1 round, got 0"),
        (4, 1, 0, "`max_participations` must be >= 1, got 0"),
    ],
)
def test_wrong_arguments_are_named(rounds, separation, most, words):
    with pytest.raises(ValueError, match=words):
        tree_sensitivity_squared(rounds, min_separation=separation, max_participations=most)
