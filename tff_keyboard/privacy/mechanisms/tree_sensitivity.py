"""Worst-case sensitivity of tree aggregation (DP-FTRL) when people take part several times.

Rounds are the leaves of binary trees; noise of one standard deviation is added to every complete
node. A person with delta norms <= 1 who joins c of the rounds below a node moves that node by at
most c, so all nodes together by

    S^2 = max over participation patterns of  sum over nodes of (participations below the node)^2

and N(0, z^2) on each node is rho-zCDP with rho = S^2 / (2 z^2). A pattern has at most
`max_participations` rounds, two of them at least `min_separation` rounds apart.

The maximum is exact. A block of leaves is a (max, +) matrix over the rounds a person must still
wait when the block begins (row) and may still have to wait when it ends (column); the parent of two
blocks is their product plus the square of its own count. The same dynamic program over recursive
calls is in Kairouz et al. 2021, Appendix D.2, https://arxiv.org/abs/2103.00039.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np

_IMPOSSIBLE = -np.inf


def tree_sensitivity_squared(
    tree_rounds: Sequence[int], *, min_separation: int, max_participations: int
) -> float:
    """S^2 of one or more trees in a row, in squared delta norms.

    Trees have so many leaves (rounds) each; a restart begins the next. Of `min_separation` >= 1, 1
    means that every round is allowed. Raises `ValueError` if an argument is out of range.

    >>> tree_sensitivity_squared([4], min_separation=4, max_participations=1)  # 3 levels
    3.0
    >>> tree_sensitivity_squared([4], min_separation=1, max_participations=4)  # 4*1 + 2*4 + 16
    28.0
    """
    if not tree_rounds or any(rounds < 1 for rounds in tree_rounds):
        raise ValueError(f"`tree_rounds` must be positive numbers of rounds, got {tree_rounds!r}.")
    if min_separation < 1:
        raise ValueError(f"`min_separation` must be >= 1 round, got {min_separation}.")
    if max_participations < 1:
        raise ValueError(f"`max_participations` must be >= 1, got {max_participations}.")
    rounds = sum(tree_rounds)
    waits = min(min_separation, rounds) - 1  # rounds to sit out after taking part
    limit = min(max_participations, -(-rounds // (waits + 1)))
    block = functools.lru_cache(maxsize=None)(
        lambda height: _complete_block(height, waits, limit, block)
    )
    # values[m]: best sum for m participations so far, by rounds still to wait.
    values = np.full([limit + 1, waits + 1], _IMPOSSIBLE)
    values[0, 0] = 0.0
    for leaves in tree_rounds:
        for height in range(leaves.bit_length() - 1, -1, -1):
            if leaves >> height & 1:
                values = _follow(values, block(height))
    return float(values.max())


def _complete_block(
    height: int, waits: int, limit: int, block: Callable[[int], np.ndarray]
) -> np.ndarray:
    """[m, wait before, wait after] best sums of a complete block of 2^height leaves."""
    leaves = 1 << height
    most = min(limit, -(-leaves // (waits + 1)))
    before, after = np.ogrid[: waits + 1, : waits + 1]
    if most <= 1:  # nobody fits twice: the closed form
        best = np.full([2, waits + 1, waits + 1], _IMPOSSIBLE)
        best[0][after >= np.maximum(0, before - leaves)] = 0.0
        # The earliest leaf allowed leaves the least to wait; the value is that of any leaf.
        best[1][(before < leaves) & (after >= np.maximum(0, waits - (leaves - 1 - before)))] = (
            height + 1.0
        )
        return best
    half = block(height - 1)
    best = np.full([most + 1, waits + 1, waits + 1], _IMPOSSIBLE)
    for left in range(len(half)):
        rights = min(len(half), most + 1 - left)
        counts = np.arange(left, left + rights, dtype=float)[:, np.newaxis, np.newaxis]
        target = best[left : left + rights]
        np.maximum(target, _max_plus(half[left], half[:rights]) + counts**2, out=target)
    return best


def _max_plus(left: np.ndarray, rights: np.ndarray) -> np.ndarray:
    """max over j of left[i, j] + rights[m, j, k], where `left` takes few values: [m, i, k].

    Rows of `left` never fall along j and columns of `rights` never rise along j (having to wait
    longer is never better), so of all j with the same left value the first is best.
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
    """Best sums after one more block: [m, wait] for [m, wait] before it."""
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
