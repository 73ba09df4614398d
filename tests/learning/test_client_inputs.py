"""In which order the clients of a round are handed to the workers."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tff_keyboard.learning.client_inputs import largest_first

SIZES = st.lists(st.integers(0, 1000), max_size=40)


@given(SIZES, st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_every_client_once_and_each_part_from_large_to_small(sizes, parts):
    order = largest_first(sizes, parts)
    assert sorted(order) == list(range(len(sizes)))
    by_size = sorted(sizes, reverse=True)
    start = 0
    for part in range(parts):
        expected = by_size[part::parts]
        assert [sizes[p] for p in order[start : start + len(expected)]] == expected
        start += len(expected)


@given(SIZES)
@settings(max_examples=50, deadline=None)
def test_equal_sizes_stay_in_order(sizes):
    order = largest_first(sizes, 1)
    assert order == sorted(order, key=lambda p: (-sizes[p], p))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=9))
@settings(max_examples=50, deadline=None)
def test_two_cores_are_done_nearly_as_early_as_possible(sizes):
    """Graham 1969: from large to small, at most 7/6 of the best time on two cores."""
    cores = [0, 0]
    for position in largest_first(sizes, 1):
        cores[cores.index(min(cores))] += sizes[position]
    halves = itertools.product([0, 1], repeat=len(sizes))
    best = min(max(t := sum(itertools.compress(sizes, h)), sum(sizes) - t) for h in halves)
    assert max(cores) <= best * 7 / 6 + 1e-9
