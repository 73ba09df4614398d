"""The mechanism "tree": DP-FTRL with noise from a binary tree over the rounds.

Source: Kairouz et al. 2021, https://arxiv.org/abs/2103.00039.
"""

import dataclasses
from typing import TYPE_CHECKING, Literal

from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism

if TYPE_CHECKING:
    import numpy as np

    from tff_keyboard.privacy.mechanisms.noise_streams import Draw, NoiseOfRounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tree(Mechanism):
    """Noise from a binary tree over rounds, with a fixed bound."""

    name: Literal["tree"] = "tree"

    @property
    def description(self) -> str:
        """See base class."""
        return "DP-FTRL: tree aggregation, fixed clip norm"

    def noise(self, draw: "Draw", size: int) -> "NoiseOfRounds":
        """See base class."""
        from tff_keyboard.privacy.mechanisms import noise_streams

        return noise_streams.NoiseOfRounds(
            lambda first, labels: noise_streams.TreeNoise(draw, size, labels)
        )

    def guarantee(
        self, *, noise_multiplier: float, rounds: int, delta: float, min_separation: int
    ) -> Guarantee:
        """See base class."""
        from tff_keyboard.privacy.accounting import accounting

        return accounting.tree_gaussian(
            noise_multiplier=noise_multiplier,
            rounds=rounds,
            delta=delta,
            min_separation=min_separation,
        )

    def iterate_variances(self, rounds: int) -> "np.ndarray":
        """See base class."""
        import numpy as np

        return np.array([_honaker(t) for t in range(1, rounds + 1)])


def _honaker(leaves: int) -> float:
    """Returns the variance of Honaker's estimate of the sum of `leaves` leaves."""
    heights = (h for h in range(leaves.bit_length()) if leaves >> h & 1)
    return sum(1 / (2 - 2.0**-height) for height in heights)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeConfig(MechanismConfig):
    """DP-FTRL with noise from a binary tree over the rounds. Makes no assumption about sampling.

    >>> TreeConfig(noise_multiplier=7.0).type
    'tree'
    """

    type: Literal["tree"] = "tree"

    def mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> Tree:
        """See base class."""
        return Tree()
