import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.algorithms.client_packing import load_balancing

SIZES = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


@given(SIZES, st.integers(0, 9))
@examples(200)
def test_every_client_is_in_one_pack_and_no_pack_is_empty(sizes, clients_per_pack):
    packs = load_balancing.num_packs(len(sizes), clients_per_pack)
    groups = load_balancing.balance_load(sizes, packs)
    assert len(groups) == packs
    assert sorted(position for pack in groups for position in pack) == list(range(len(sizes)))
    assert all(groups)


@given(SIZES, st.integers(1, 60))
@examples(200)
def test_packs_have_similar_sizes(sizes, packs):
    """Graham 1969: the largest first is at most 4/3 - 1/(3m) above the best largest total."""
    packs = min(packs, len(sizes))
    totals = [sum(sizes[p] for p in pack) for pack in load_balancing.balance_load(sizes, packs)]
    assert totals == sorted(totals, reverse=True)
    best = max(max(sizes), -(-sum(sizes) // packs))
    assert max(totals) <= 2 * best
    if len(totals) > 1 and len(set(sizes)) == 1:
        assert max(totals) - min(totals) <= sizes[0]


@pytest.mark.parametrize(
    "clients, per_pack, packs",
    [(0, 0, 0), (0, 3, 0), (1000, 0, 16), (10, 0, 10), (100, 8, 13), (3, 9, 1), (3, 1, 3)],
)
def test_number_of_packs(clients, per_pack, packs):
    assert load_balancing.num_packs(clients, per_pack) == packs


@given(SIZES, st.integers(1, 60))
@examples(100)
def test_each_goes_to_the_pack_that_has_least(sizes, packs):
    groups, totals = [[] for _ in range(packs)], [0] * packs
    for position in sorted(range(len(sizes)), key=lambda p: -sizes[p]):
        smallest = min(range(packs), key=lambda p: (totals[p], len(groups[p])))
        groups[smallest].append(position)
        totals[smallest] += sizes[position]
    assert load_balancing.balance_load(sizes, packs) == sorted(
        groups, key=lambda d: -sum(sizes[p] for p in d)
    )
