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

If the key alone does not determine the data of a round, its draws also depend on a tag of that data
(`noise_content.py`), so that two different sums of a round never have the same noise.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.privacy.mechanisms.blt import Blt
from tff_keyboard.privacy.mechanisms.discrete_normal import keyed_discrete_normal
from tff_keyboard.privacy.mechanisms.keyed_normal import keyed_normal

# Returns independent standard normal draws for a label and a size, [size] float64.
Draw = Callable[[str, int], np.ndarray]
LabelOfRound = Callable[[int], str]


def round_label(round_num: int, tags: Sequence[str] = ()) -> str:
    """Returns the label of a round's draws: its number, and the tag of its data if there are tags.

    >>> round_label(2), round_label(2, ["aa", "bb", "cc"])
    ('round 2', 'round 2 content cc')
    """
    return f"round {round_num} content {tags[round_num]}" if tags else f"round {round_num}"


class NoiseStream(Protocol):
    """The noise of one mechanism, round after round."""

    def next(self) -> np.ndarray:
        """Returns the noise of the next round, from 0 on: [size] float64."""


class IndependentNoise:
    """A stream with a separate draw for each round, which can start at any round."""

    def __init__(
        self,
        draw: Draw,
        size: int,
        first_round: int = 0,
        label_of_round: LabelOfRound = round_label,
    ):
        self._draw = draw
        self._size = size
        self._round = first_round
        self._label_of_round = label_of_round

    def next(self) -> np.ndarray:
        """See `NoiseStream`."""
        self._round += 1
        return self._draw(self._label_of_round(self._round - 1), self._size)


class TreeNoise:
    """Differences of the running sums' noise from a binary tree, with Honaker's estimate.

    Each node of 2^h rounds has its own draw. Its released value is the best combination of this
    draw and its children's estimates, with weight w_h = 1 / (2 - 2^-h) on its own draw (Honaker
    2015, bottom up), and has variance w_h.
    """

    def __init__(self, draw: Draw, size: int, label_of_round: LabelOfRound = round_label):
        self._draw = draw
        self._size = size
        self._label_of_round = label_of_round
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
        label = self._label_of_round(self._round)
        return self._draw(f"{label} height {height}", self._size)


class BltNoise:
    """C^-1 z of a buffered linear Toeplitz matrix, with one array per buffer."""

    def __init__(self, draw: Draw, size: int, blt: Blt, label_of_round: LabelOfRound = round_label):
        self._draws = IndependentNoise(draw, size, label_of_round=label_of_round)
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

    `build` starts the stream for a first round, with the labels of all rounds. A stream that
    `starts_anywhere` begins with that round. Others begin with round 0 and are run up to it.
    """

    def __init__(
        self, build: Callable[[int, LabelOfRound], NoiseStream], *, starts_anywhere: bool = False
    ):
        self._build = build
        self._starts_anywhere = starts_anywhere
        self._stream: NoiseStream | None = None
        self._labels: list[str] = []  # of the rounds that the stream has passed
        self._noise = np.zeros(0)  # of the last of them

    def __call__(self, round_num: int, tags: Sequence[str] = ()) -> np.ndarray:
        """Returns the noise of round `round_num` >= 0, [size] float64. Do not modify it.

        Args:
          round_num: The number of rounds before it.
          tags: Tags of the data of rounds 0 to `round_num`, or () if the key determines the data.

        Raises:
          ValueError: If the round is negative, or tags are missing.
        """
        if round_num < 0:
            raise ValueError(f"`round_num` must be >= 0, got {round_num}.")
        if tags and len(tags) <= round_num:
            raise ValueError(f"`tags` must have {round_num + 1} tags, got {len(tags)}.")
        first = round_num if self._starts_anywhere else 0
        labels = [round_label(number, tags) for number in range(first, round_num + 1)]
        if self._stream is None or labels[: len(self._labels)] != self._labels:
            passed: list[str] = []
            self._labels = passed
            self._stream = self._build(first, lambda number: passed[number - first])
        while len(self._labels) < len(labels):
            self._labels.append(labels[len(self._labels)])
            self._noise = self._stream.next()
        return self._noise


def keyed_draw(key: bytes) -> Draw:
    """Returns the cryptographic generator of `keyed_normal` as a `Draw`."""
    return lambda label, size: keyed_normal(key, label, size)


def keyed_discrete_draw(key: bytes) -> Draw:
    """Returns the generator of `discrete_normal` as a `Draw`, with multiples of 2^-20."""
    return lambda label, size: keyed_discrete_normal(key, label, size)
