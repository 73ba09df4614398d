"""Gaussian noise that is independent from round to round."""

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism

if TYPE_CHECKING:
    import numpy as np

    from tff_keyboard.privacy.mechanisms.noise_streams import Draw, NoiseOfRounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndependentGaussian(Mechanism):
    """Fresh noise in every round."""

    is_independent: ClassVar[bool] = True

    @property
    def conversion(self) -> str:
        """The conversion of rho to epsilon; see `accounting.unsampled_gaussian`."""
        return "exact Gaussian"

    def noise(self, draw: "Draw", size: int) -> "NoiseOfRounds":
        """See base class."""
        from tff_keyboard.privacy.mechanisms import noise_streams

        return noise_streams.NoiseOfRounds(
            lambda first, labels: noise_streams.IndependentNoise(draw, size, first, labels),
            starts_anywhere=True,
        )

    def guarantee(
        self, *, noise_multiplier: float, rounds: int, delta: float, min_separation: int
    ) -> Guarantee:
        """See base class."""
        from tff_keyboard.privacy.accounting import accounting

        return accounting.unsampled_gaussian(
            noise_multiplier=noise_multiplier,
            participations=-(-rounds // min_separation),
            delta=delta,
            method=self.conversion,
        )

    def iterate_variances(self, rounds: int) -> "np.ndarray":
        """See base class."""
        import numpy as np

        return np.arange(1.0, rounds + 1)
