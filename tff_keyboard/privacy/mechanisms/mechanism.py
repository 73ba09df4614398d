"""The noise mechanism of a run with all its numbers, resolved once, recorded and reused.

The coefficients of correlated noise are optimised for the schedule at the start of a run. They are
recorded in the ledger's header and read from there on resume. With more rounds, or another version
of SciPy, a run therefore keeps its original mechanism (and stays private: S grows with the rounds).
The mechanisms are in `privacy/registry/`.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tff_keyboard.parts import tables
from tff_keyboard.parts.registry import Registry

if TYPE_CHECKING:
    import numpy as np

    from tff_keyboard.privacy.accounting.guarantee import Guarantee
    from tff_keyboard.privacy.mechanisms.noise_streams import Draw, NoiseOfRounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mechanism:
    """Base class of the mechanisms, used for noise generation and for accounting.

    Attributes:
      is_independent: Whether the noise of the rounds is independent, so that sampling may amplify
        privacy.
      is_adaptive: Whether the clip norm follows a quantile.
    """

    REGISTRY: ClassVar[Registry] = Registry("tff_keyboard.privacy.registry", tag="name")
    is_independent: ClassVar[bool] = False
    is_adaptive: ClassVar[bool] = False

    name: str  # identifies the class

    @property
    def is_discrete(self) -> bool:
        """Whether the sum and the noise are integers."""
        return False

    @property
    def description(self) -> str:
        """The mechanism in words, for the privacy statement."""
        raise NotImplementedError

    def noise(self, draw: "Draw", size: int) -> "NoiseOfRounds":
        """Returns the noise of any round, in units of one draw."""
        raise NotImplementedError

    def keyed_noise(self, key: bytes) -> "Callable[[int], NoiseOfRounds]":
        """Returns a function from a size to the noise of any round, under a key of 32 bytes."""
        from tff_keyboard.privacy.mechanisms import noise_streams

        return lambda size: self.noise(noise_streams.keyed_draw(key), size)

    def guarantee(
        self, *, noise_multiplier: float, rounds: int, delta: float, min_separation: int
    ) -> "Guarantee":
        """Returns the guarantee without amplification by sampling.

        Args:
          noise_multiplier: Noise standard deviation of one draw / clip norm, >= 0.
          rounds: Rounds of the run, >= 0.
          delta: Delta of the statement, in (0, 1).
          min_separation: A client that joins round i joins no round before i + min_separation;
            >= 1.
        """
        raise NotImplementedError

    def iterate_variances(self, rounds: int) -> "np.ndarray":
        """Returns the noise variances of the sums of the first t rounds, in draws.

        The result is [rounds] float64.

        >>> named("gaussian").iterate_variances(3)
        array([1., 2., 3.])
        """
        raise NotImplementedError


def named(name: str, **numbers: Any) -> Mechanism:
    """Returns the mechanism of a name, with the given numbers.

    Raises `ValueError` if there is no such mechanism, or it has no such number, or a number is out
    of range.
    """
    return tables.build(Mechanism, {"name": name, **numbers})
