"""Cuts a cohort into packs: a pure function of the sizes of its clients and the config."""

import heapq
from collections.abc import Sequence

# Sums of a pack (a copy of the model) stay in memory until all earlier packs are done, so the
# number of packs is bounded. With 16 packs no core waits long for the last one of a round.
PACKS_PER_ROUND = 16

# Clients of a pack share their first step (`row_groups.py`), so small packs cost time.
_MIN_PACKS, _TOKENS_PER_PACK = 4, 512


def num_packs(num_clients: int, clients_per_pack: int, tokens: int | None = None) -> int:
    """Returns the number of packs of a round, of at most `clients_per_pack` clients.

    0 means `PACKS_PER_ROUND` packs, or one per client if there are fewer clients.

    >>> num_packs(100, 0), num_packs(100, 8), num_packs(5, 0), num_packs(5, 1)
    (16, 13, 5, 5)
    >>> num_packs(100, 0, tokens=900), num_packs(100, 0, tokens=5_000)
    (4, 9)

    Args:
      num_clients: Number of clients.
      clients_per_pack: Largest number of clients in a pack; 0 means as above.
      tokens: If given, all tokens of the round. With little text there are fewer packs, at least 4.
    """
    if clients_per_pack:
        return -(-num_clients // clients_per_pack)
    packs = PACKS_PER_ROUND
    if tokens is not None:
        packs = min(packs, max(_MIN_PACKS, tokens // _TOKENS_PER_PACK))
    return min(num_clients, packs)


def balance_load(sizes: Sequence[float], packs: int) -> list[list[int]]:
    """Distributes clients over packs of similar size (longest processing time first).

    The largest client is first. Each client goes to the pack with the smallest sum; if sums are
    equal, to the one with the fewest clients, then to the first. If the sizes differ much, one pack
    may have one client and another pack many.

    >>> balance_load([10, 40, 20, 30], 2)
    [[1, 0], [3, 2]]

    Args:
      sizes: Cost of each client, >= 0.
      packs: Number of packs.

    Returns:
      For each pack, largest first, positions in `sizes`, largest first. No pack is empty if there
      are at least `packs` clients.
    """
    groups: list[list[int]] = [[] for _ in range(packs)]
    heap = [(0.0, 0, pack) for pack in range(packs)]  # (sum of sizes, number of clients, pack)
    for position in sorted(range(len(sizes)), key=lambda p: -sizes[p]):  # stable
        total, clients, pack = heap[0]
        groups[pack].append(position)
        heapq.heapreplace(heap, (total + sizes[position], clients + 1, pack))
    return sorted(groups, key=lambda pack: -sum(sizes[p] for p in pack))
