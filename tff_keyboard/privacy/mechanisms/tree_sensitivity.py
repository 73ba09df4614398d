"""Worst-case sensitivity of tree aggregation (DP-FTRL) if clients take part several times.

Rounds are the leaves of a binary tree, and every complete node gets noise of one standard
deviation. A client with update norms <= 1 that joins c of the rounds below a node changes that node
by at most c, and all nodes together by

    S^2 = max over participation patterns of  sum over nodes of (participations below the node)^2

N(0, z^2) on each node is rho-zCDP with rho = S^2 / (2 z^2). A pattern has at most
`max_participations` rounds, any two at least `min_separation` rounds apart.

The maximum is exact. A block of leaves is a (max, +) matrix. Its row is the number of rounds that a
client must still wait when the block begins, and its column that when it ends. The parent of two
blocks is their product plus the square of its own count. Kairouz et al. 2021, Appendix D.2,
https://arxiv.org/abs/2103.00039, have the same dynamic program as a recursion.
"""

import functools
from collections.abc import Callable

import numpy as np

_IMPOSSIBLE = -np.inf


def tree_sensitivity_squared(rounds: int, *, min_separation: int, max_participations: int) -> float:
    """Returns S^2 of a tree, in squared update norms.

    >>> tree_sensitivity_squared(4, min_separation=4, max_participations=1)  # 3 levels
    3.0
    >>> tree_sensitivity_squared(4, min_separation=1, max_participations=4)  # 4*1 + 2*4 + 16
    28.0

    Args:
      rounds: Number of leaves of the tree, >= 1.
      min_separation: A client that joins round i joins no round before i + min_separation; >= 1.
      max_participations: Maximum number of rounds of a client, >= 1.

    Raises:
      ValueError: If an argument is out of range.
    """
    if rounds < 1:
        raise ValueError(f"`rounds` must be >= 1, got {rounds}.")
    if min_separation < 1:
        raise ValueError(f"`min_separation` must be >= 1 round, got {min_separation}.")
    if max_participations < 1:
        raise ValueError(f"`max_participations` must be >= 1, got {max_participations}.")
    waits = min(min_separation, rounds) - 1  # rounds to wait after a participation
    limit = min(max_participations, -(-rounds // (waits + 1)))
    block = functools.lru_cache(maxsize=None)(
        lambda height: _complete_block(height, waits, limit, block)
    )
    # values[m]: best sum for m participations so far, indexed by the remaining wait.
    values = np.full([limit + 1, waits + 1], _IMPOSSIBLE)
    values[0, 0] = 0.0
    for height in range(rounds.bit_length() - 1, -1, -1):
        if rounds >> height & 1:
            values = _follow(values, block(height))
    return float(values.max())


def _complete_block(
    height: int, waits: int, limit: int, block: Callable[[int], np.ndarray]
) -> np.ndarray:
    """Returns the best sums of a block of 2^height leaves, [m, wait before, wait after]."""
    leaves = 1 << height
    participations = min(limit, -(-leaves // (waits + 1)))
    before, after = np.ogrid[: waits + 1, : waits + 1]
    if participations <= 1:  # no client fits twice: closed form
        best = np.full([2, waits + 1, waits + 1], _IMPOSSIBLE)
        best[0][after >= np.maximum(0, before - leaves)] = 0.0
        # The earliest allowed leaf leaves the shortest wait. All leaves have the same value.
        best[1][(before < leaves) & (after >= np.maximum(0, waits - (leaves - 1 - before)))] = (
            height + 1.0
        )
        return best
    half = block(height - 1)
    best = np.full([participations + 1, waits + 1, waits + 1], _IMPOSSIBLE)
    for left_count in range(len(half)):
        num_rights = min(len(half), participations + 1 - left_count)
        counts = np.arange(left_count, left_count + num_rights, dtype=float)[
            :, np.newaxis, np.newaxis
        ]
        target = best[left_count : left_count + num_rights]
        np.maximum(target, _max_plus(half[left_count], half[:num_rights]) + counts**2, out=target)
    return best


def _max_plus(left: np.ndarray, rights: np.ndarray) -> np.ndarray:
    """Returns max over j of left[i, j] + rights[m, j, k], [m, i, k], for few values in `left`.

    Rows of `left` never decrease along j and columns of `rights` never increase along j (a longer
    wait is never better). Of all j with the same left value, the first is therefore the best.
    """
    result = np.full([len(rights), left.shape[0], rights.shape[2]], _IMPOSSIBLE)
    for value in np.unique(left):
        if value == _IMPOSSIBLE:
            continue
        reached = left >= value
        rows = np.flatnonzero(reached[:, -1])
        first = reached[rows].argmax(axis=1)
        result[:, rows] = np.maximum(result[:, rows], value + rights[:, first])
    return result


def _follow(values: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Returns the best sums [m, wait] after one more block, from those before it."""
    result = np.full_like(values, _IMPOSSIBLE)
    for already in range(len(values)):
        waits = np.flatnonzero(values[already] > _IMPOSSIBLE)
        if not len(waits):
            continue
        more = min(len(block), len(values) - already)
        reached = values[already, waits, np.newaxis] + block[:more, waits]
        target = result[already : already + more]
        np.maximum(target, reached.max(axis=1), out=target)
    return result
