"""The noise of every round of a mechanism, in units of one draw, computed on the server with NumPy.

The noise of round t is a vector with one number for each coordinate of the clients' record (and one
for the count of the adaptive clip norm). It depends only on (key, t):

    independent   z_t
    tree          n_t - n_{t-1}: the tree's noise of the first t rounds, minus the round before
    BLT           x_t = z_t - sum_i s_i b_i,   b_i <- lambda_i b_i + x_t     (C^-1 z, blt.py)

with independent standard normal draws. The aggregator multiplies it by the standard deviation
(noise multiplier x clip norm) and adds it. Buffers exist only in this process: neither they nor the
draws are in a checkpoint. After a restart they are computed again from the key, round by round
(0.05 s per round and draw at 1.4 million parameters).
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tff_keyboard.privacy.mechanisms.blt import Blt
from tff_keyboard.privacy.mechanisms.discrete_normal import keyed_discrete_normal
from tff_keyboard.privacy.mechanisms.keyed_normal import keyed_normal

# Returns independent standard normal draws for a label and a size, [size] float64.
Draw = Callable[[str, int], np.ndarray]


class NoiseStream(Protocol):
    """The noise of one mechanism, round after round."""

    def next(self) -> np.ndarray:
        """Returns the noise of the next round, from 0 on: [size] float64."""


class IndependentNoise:
    """A stream with a separate draw for each round, which can start at any round."""

    def __init__(self, draw: Draw, size: int, first_round: int = 0):
        self._draw = draw
        self._size = size
        self._round = first_round

    def next(self) -> np.ndarray:
        """See `NoiseStream`."""
        self._round += 1
        return self._draw(f"round {self._round - 1}", self._size)


class TreeNoise:
    """Differences of the running sums' noise from a binary tree, with Honaker's estimate.

    Each node of 2^h rounds has its own draw. Its released value is the best combination of this
    draw and its children's estimates, with weight w_h = 1 / (2 - 2^-h) on its own draw (Honaker
    2015, bottom up), and has variance w_h.
    """

    def __init__(self, draw: Draw, size: int):
        self._draw = draw
        self._size = size
        self._round = 0
        self._blocks: list[tuple[int, np.ndarray]] = []  # (height, estimate), oldest first
        self._previous = np.zeros(size)

    def next(self) -> np.ndarray:
        """See `NoiseStream`."""
        estimate, height = self._node(0), 0
        while self._blocks and self._blocks[-1][0] == height:
            children = self._blocks.pop()[1] + estimate
            height += 1
            weight = 1 / (2 - 2.0**-height)
            estimate = weight * self._node(height) + (1 - weight) * children
        self._blocks.append((height, estimate))
        running = np.sum([block for _, block in self._blocks], axis=0)
        difference = running - self._previous
        self._previous = running
        self._round += 1
        return difference

    def _node(self, height: int) -> np.ndarray:
        """Returns the draw of the node that ends with this round."""
        return self._draw(f"round {self._round} height {height}", self._size)


class BltNoise:
    """C^-1 z of a buffered linear Toeplitz matrix, with one array per buffer."""

    def __init__(self, draw: Draw, size: int, blt: Blt):
        self._draws = IndependentNoise(draw, size)
        self._blt = blt
        self._buffers = [np.zeros(size) for _ in blt.decays]

    def next(self) -> np.ndarray:
        """See `NoiseStream`."""
        noise = self._draws.next()
        for scale, buffer in zip(self._blt.scales, self._buffers, strict=True):
            noise = noise - scale * buffer
        for decay, buffer in zip(self._blt.decays, self._buffers, strict=True):
            buffer *= decay
            buffer += noise
        return noise


class NoiseOfRounds:
    """The noise of any round of a mechanism. Consecutive rounds cost one step each.

    `build` starts the stream for the round in its argument. A stream that `starts_anywhere` begins
    with that round. Others begin with round 0 and are run up to it.
    """

    def __init__(self, build: Callable[[int], NoiseStream], *, starts_anywhere: bool = False):
        self._build = build
        self._starts_anywhere = starts_anywhere
        self._stream: NoiseStream | None = None
        self._next_round = 0
        self._last: tuple[int, np.ndarray] | None = None

    def __call__(self, round_num: int) -> np.ndarray:
        """Returns the noise of round `round_num` >= 0, [size] float64. Do not modify it."""
        if round_num < 0:
            raise ValueError(f"`round_num` must be >= 0, got {round_num}.")
        if self._last is not None and self._last[0] == round_num:
            return self._last[1]
        jumps = self._starts_anywhere and round_num != self._next_round
        if self._stream is None or jumps or round_num < self._next_round:
            self._stream = self._build(round_num)
            self._next_round = round_num if self._starts_anywhere else 0
        while self._next_round <= round_num:
            noise = self._stream.next()
            self._next_round += 1
        self._last = (round_num, noise)
        return noise


def keyed_draw(key: bytes) -> Draw:
    """Returns the cryptographic generator of `keyed_normal` as a `Draw`."""
    return lambda label, size: keyed_normal(key, label, size)


def keyed_discrete_draw(key: bytes) -> Draw:
    """Returns the generator of `discrete_normal` as a `Draw`, with multiples of 2^-20."""
    return lambda label, size: keyed_discrete_normal(key, label, size)
