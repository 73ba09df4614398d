"""The noise mechanism of a run with all its numbers, resolved once, recorded and reused.

The coefficients of correlated noise are optimised for the schedule at the start of a run. They are
recorded in the ledger's header and read from there on resume. With more rounds, or another version
of SciPy, a run therefore keeps its original mechanism (and stays private: S grows with the rounds).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

from tff_keyboard.config.sections import privacy_config
from tff_keyboard.parts import tables
from tff_keyboard.privacy.mechanisms import noise_streams
from tff_keyboard.privacy.mechanisms.blt import Blt, optimal_blt
from tff_keyboard.privacy.mechanisms.noise_streams import Draw, NoiseOfRounds


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Mechanism:
    """Base class of the mechanisms, used for noise generation and for accounting.

    Attributes:
      is_independent: Whether the noise of the rounds is independent, so that sampling may amplify
        privacy.
    """

    name: str  # identifies the class
    is_independent: ClassVar[bool] = False
    is_adaptive: ClassVar[bool] = False  # whether the clip norm follows a quantile

    def matrix(self) -> Blt | None:
        """Returns C of correlated noise, or None for other mechanisms."""
        return None

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        """Returns the noise of any round, in units of one draw."""
        raise NotImplementedError

    def keyed_noise(self, key: bytes) -> Callable[[int], NoiseOfRounds]:
        """Returns a function from a size to the noise of any round, under a key of 32 bytes."""
        return lambda size: self.noise(noise_streams.keyed_draw(key), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Gaussian(_Mechanism):
    is_independent: ClassVar[bool] = True

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        return NoiseOfRounds(
            lambda first, labels: noise_streams.IndependentNoise(draw, size, first, labels),
            starts_anywhere=True,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian(_Gaussian):
    """Fresh noise in every round, with a fixed bound."""

    name: Literal["gaussian"] = "gaussian"
    is_discrete: bool = False  # whether sum and noise are integers (discrete Gaussian)

    def keyed_noise(self, key: bytes) -> Callable[[int], NoiseOfRounds]:
        make = noise_streams.keyed_discrete_draw if self.is_discrete else noise_streams.keyed_draw
        return lambda size: self.noise(make(key), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianAdaptive(_Gaussian):
    """Fresh noise in every round, with an adaptive bound."""

    name: Literal["gaussian_adaptive"] = "gaussian_adaptive"
    is_adaptive: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tree(_Mechanism):
    """DP-FTRL: noise from a binary tree over rounds, with a fixed bound."""

    name: Literal["tree"] = "tree"

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        return NoiseOfRounds(lambda first, labels: noise_streams.TreeNoise(draw, size, labels))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BltMechanism(_Mechanism):
    """Buffered linear Toeplitz noise. Raises `ValueError` if decays or scales are out of range."""

    name: Literal["blt"] = "blt"
    decays: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        self.matrix()

    def matrix(self) -> Blt:
        return Blt(decays=self.decays, scales=self.scales)

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        return NoiseOfRounds(
            lambda first, labels: noise_streams.BltNoise(draw, size, self.matrix(), labels)
        )


Mechanism: TypeAlias = Gaussian | GaussianAdaptive | Tree | BltMechanism
NAMES = tuple(tables.variants(Mechanism))


def named(name: str, **numbers: Any) -> Mechanism:
    """Returns the mechanism of a name, with the given numbers.

    Raises `ValueError` if there is no such mechanism, or it has no such number, or a number is out
    of range.
    """
    return tables.build(Mechanism, {"name": name, **numbers})


def optimal_mechanism(
    name: str,
    *,
    rounds: int,
    min_separation: int,
    buffers: int = 2,
    momentum: float = 0.0,
) -> Mechanism:
    """Builds the mechanism for a schedule. The coefficients of a BLT are optimised for it.

    Arguments and errors are as for `optimal_blt`.
    """
    if name == "blt":
        best = optimal_blt(
            rounds=rounds,
            min_separation=min_separation,
            buffers=buffers,
            momentum=momentum,
        )
        return BltMechanism(decays=best.decays, scales=best.scales)
    return named(name)


def mechanism_of(
    privacy: privacy_config.MechanismConfig,
    *,
    rounds: int,
    min_separation_rounds: int = 1,
    momentum: float = 0.0,
) -> Mechanism:
    """Returns the mechanism of a config for a schedule; see `optimal_mechanism`."""
    if isinstance(privacy, privacy_config.GaussianConfig):
        return Gaussian(is_discrete=privacy.is_discrete)
    return optimal_mechanism(
        privacy.type,
        rounds=rounds,
        min_separation=min_separation_rounds,
        buffers=getattr(privacy, "buffers", 1),
        momentum=momentum,
    )
