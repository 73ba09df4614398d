"""The mechanism "gaussian": independent noise in every round, and a fixed clip norm."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.registry._independent import IndependentGaussian

if TYPE_CHECKING:
    from tff_keyboard.privacy.mechanisms.noise_streams import NoiseOfRounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian(IndependentGaussian):
    """Fresh noise in every round, with a fixed bound."""

    name: Literal["gaussian"] = "gaussian"
    is_discrete: bool = False  # whether sum and noise are integers (discrete Gaussian)

    @property
    def conversion(self) -> str:
        """See base class. Only rho is known for a discrete Gaussian."""
        return "RDP conversion" if self.is_discrete else "exact Gaussian"

    @property
    def description(self) -> str:
        """See base class."""
        text = "Gaussian mechanism, fixed clip norm, fresh noise every round"
        return f"discrete {text}; sums of integers" if self.is_discrete else text

    def keyed_noise(self, key: bytes) -> "Callable[[int], NoiseOfRounds]":
        """See base class."""
        from tff_keyboard.privacy.mechanisms import noise_streams

        make = noise_streams.keyed_discrete_draw if self.is_discrete else noise_streams.keyed_draw
        return lambda size: self.noise(make(key), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianConfig(MechanismConfig):
    """Clips updates to a fixed norm and adds independent Gaussian noise in every round.

    >>> GaussianConfig(clip_norm=0.5, noise_multiplier=0.8).is_discrete
    False

    Attributes:
      distribution: "continuous" adds float64 noise. With "discrete", clients round their clipped
        updates towards zero to multiples of noise_multiplier x clip_norm / 2^20. The server then
        sums integers and adds noise from a discrete Gaussian on the same grid. "discrete" requires
        the rule "mean" and a noise multiplier > 0.
    """

    type: Literal["gaussian"] = "gaussian"
    distribution: Literal["continuous", "discrete"] = "continuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.distribution == "continuous" or self.noise_multiplier > 0,
            "distribution",
            "'discrete' requires a noise multiplier > 0, because the grid is a fraction of the "
            "noise",
        )

    @property
    def is_discrete(self) -> bool:
        """See base class."""
        return self.distribution == "discrete"

    def mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> Gaussian:
        """See base class."""
        return Gaussian(is_discrete=self.is_discrete)
