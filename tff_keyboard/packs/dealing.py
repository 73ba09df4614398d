"""How a cohort is cut into packs: a pure function of the sizes of its clients and the config."""

import heapq
from collections.abc import Sequence

# A worker keeps what each pack of a sub-round returned until all are there, a few copies of the
# model, so their number is bounded; twice the cores of a worker or more, so that none waits long
# for the last. 16 is both for up to eight cores a worker.
PACKS_PER_SUB_ROUND = 16


def num_packs(num_clients: int, clients_per_pack: int, sub_rounds: int) -> int:
    """Packs of a round, of at most `clients_per_pack` clients.

    0 means `PACKS_PER_SUB_ROUND` packs a sub-round, or one for each client where there are fewer.
    Each of the `sub_rounds` >= 1 gets a pack where there are as many clients.

    >>> num_packs(100, 0, 1), num_packs(100, 8, 1), num_packs(5, 0, 1), num_packs(5, 8, 2)
    (16, 13, 5, 2)
    """
    if not clients_per_pack:
        return min(num_clients, PACKS_PER_SUB_ROUND * sub_rounds)
    return min(num_clients, max(sub_rounds, -(-num_clients // clients_per_pack)))


def deal(sizes: Sequence[float], packs: int) -> list[list[int]]:
    """Deals clients of `sizes` >= 0 (what their work costs) to packs of like size.

    The largest first, each to the pack that has least; among packs that have as much, to the first.
    Where the sizes are far apart a pack may have one client and another many. Of each pack, largest
    first, returns positions in `sizes`, largest first; none is empty.

    >>> deal([10, 40, 20, 30], 2)
    [[1, 0], [3, 2]]
    """
    dealt: list[list[int]] = [[] for _ in range(packs)]
    heap = [(0.0, 0, pack) for pack in range(packs)]  # what each has, of how many clients
    for position in sorted(range(len(sizes)), key=lambda p: -sizes[p]):  # stable
        total, clients, least = heap[0]
        dealt[least].append(position)
        heapq.heapreplace(heap, (total + sizes[position], clients + 1, least))
    return sorted(dealt, key=lambda pack: -sum(sizes[p] for p in pack))
