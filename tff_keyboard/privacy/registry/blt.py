"""The mechanism "blt": DP-FTRL with buffered linear Toeplitz noise (`mechanisms/blt.py`)."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism
from tff_keyboard.storage import checks

if TYPE_CHECKING:
    import numpy as np

    from tff_keyboard.privacy.mechanisms.blt import Blt
    from tff_keyboard.privacy.mechanisms.noise_streams import Draw, NoiseOfRounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class BltMechanism(Mechanism):
    """Buffered linear Toeplitz noise. Raises `ValueError` if decays or scales are out of range."""

    name: Literal["blt"] = "blt"
    decays: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        self.matrix()

    @property
    def description(self) -> str:
        """See base class."""
        return "DP-FTRL: buffered linear Toeplitz noise, fixed clip norm"

    def matrix(self) -> "Blt":
        """Returns C; the noise is C^-1 z."""
        from tff_keyboard.privacy.mechanisms.blt import Blt

        return Blt(decays=self.decays, scales=self.scales)

    def noise(self, draw: "Draw", size: int) -> "NoiseOfRounds":
        """See base class."""
        from tff_keyboard.privacy.mechanisms import noise_streams

        return noise_streams.NoiseOfRounds(
            lambda first, labels: noise_streams.BltNoise(draw, size, self.matrix(), labels)
        )

    def guarantee(
        self, *, noise_multiplier: float, rounds: int, delta: float, min_separation: int
    ) -> Guarantee:
        """See base class."""
        from tff_keyboard.privacy.accounting import accounting

        return accounting.matrix_gaussian(
            noise=self.matrix(),
            noise_multiplier=noise_multiplier,
            rounds=rounds,
            delta=delta,
            min_separation=min_separation,
        )

    def iterate_variances(self, rounds: int) -> "np.ndarray":
        """See base class."""
        from tff_keyboard.privacy.mechanisms import toeplitz

        inverse = self.matrix().inverse(rounds)
        return toeplitz.iterate_variances(inverse, toeplitz.prefix_sums(rounds))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BltConfig(MechanismConfig):
    """DP-FTRL with buffered linear Toeplitz (BLT) noise, optimised for the rounds of the run.

    >>> BltConfig(noise_multiplier=7.0, buffers=3).type
    'blt'

    Attributes:
      buffers: Number of noise buffers. Each needs as much memory as the model.
    """

    type: Literal["blt"] = "blt"
    buffers: Annotated[int, checks.between(1, 4)] = 2

    def mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> BltMechanism:
        """See base class. Other arguments and errors are as for `optimal_blt`."""
        from tff_keyboard.privacy.mechanisms.blt import optimal_blt

        best = optimal_blt(
            rounds=rounds,
            min_separation=min_separation_rounds,
            buffers=self.buffers,
            momentum=momentum,
        )
        return BltMechanism(decays=best.decays, scales=best.scales)
