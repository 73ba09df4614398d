import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.algorithms.client_packing import dealing

SIZES = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


@given(SIZES, st.integers(0, 9))
@examples(200)
def test_every_client_is_in_one_pack_and_no_pack_is_empty(sizes, clients_per_pack):
    packs = dealing.num_packs(len(sizes), clients_per_pack)
    dealt = dealing.deal(sizes, packs)
    assert len(dealt) == packs
    assert sorted(position for pack in dealt for position in pack) == list(range(len(sizes)))
    assert all(dealt)


@given(SIZES, st.integers(1, 60))
@examples(200)
def test_packs_have_similar_sizes(sizes, packs):
    """Graham 1969: the largest first is at most 4/3 - 1/(3m) above the best largest total."""
    packs = min(packs, len(sizes))
    totals = [sum(sizes[p] for p in pack) for pack in dealing.deal(sizes, packs)]
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
    assert dealing.num_packs(clients, per_pack) == packs


@given(SIZES, st.integers(1, 60))
@examples(100)
def test_each_goes_to_the_pack_that_has_least(sizes, packs):
    dealt, totals = [[] for _ in range(packs)], [0] * packs
    for position in sorted(range(len(sizes)), key=lambda p: -sizes[p]):
        least = min(range(packs), key=lambda p: (totals[p], len(dealt[p])))
        dealt[least].append(position)
        totals[least] += sizes[position]
    assert dealing.deal(sizes, packs) == sorted(dealt, key=lambda d: -sum(sizes[p] for p in d))
