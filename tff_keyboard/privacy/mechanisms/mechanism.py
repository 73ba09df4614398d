"""What kind of noise a run adds, with every number that fixes it: resolved once, recorded, reused.

Coefficients of correlated noise are optimised for the schedule a run begins with. They are recorded
in the ledger's header and read from there on resume: a run that is given more rounds, or another
version of SciPy, keeps the mechanism it began with (and stays private: S grows with the rounds).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading import tables
from tff_keyboard.config.sections import privacy_config
from tff_keyboard.privacy.mechanisms import noise_streams, toeplitz
from tff_keyboard.privacy.mechanisms.banded import Banded, optimal_banded
from tff_keyboard.privacy.mechanisms.blt import Blt, optimal_blt
from tff_keyboard.privacy.mechanisms.noise_streams import Draw, NoiseOfRounds

_NUMBERS: dict[str, Any] = {
    "restart_rounds": 0,
    "decays": (),
    "scales": (),
    "bands": (),
    "is_discrete": False,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Mechanism:
    """What all mechanisms have, ready to make noise and to be accounted for.

    Attributes:
      is_independent: Whether every round has noise of its own, so that sampling may amplify
        privacy.
      clip_every: Rounds between changes of an adaptive clip norm.
    """

    name: str  # chooses the class
    is_independent: ClassVar[bool] = False
    is_adaptive: ClassVar[bool] = False  # whether the clip norm follows a quantile

    @property
    def clip_every(self) -> int:
        return 1

    @property
    def facts(self) -> dict[str, Any]:
        """What the noise key is made of: the numbers of all mechanisms, other ones' empty."""
        return _NUMBERS | dataclasses.asdict(self)

    def matrix(self) -> toeplitz.ToeplitzNoise | None:
        """C of correlated noise; None for the others."""
        return None

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        """The noise of any round, in units of one draw."""
        raise NotImplementedError

    def keyed_noise(self, key: bytes) -> Callable[[int], NoiseOfRounds]:
        """Makes the noise of any round from a round's size, under a key of 32 bytes."""
        return lambda size: self.noise(noise_streams.keyed_draw(key), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Gaussian(_Mechanism):
    is_independent: ClassVar[bool] = True

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        return NoiseOfRounds(
            lambda first: noise_streams.IndependentNoise(draw, size, first), starts_anywhere=True
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian(_Gaussian):
    """Fresh noise every round, fixed bound."""

    name: Literal["gaussian"] = "gaussian"
    is_discrete: bool = False  # whether sum and noise are integers: the discrete Gaussian

    def keyed_noise(self, key: bytes) -> Callable[[int], NoiseOfRounds]:
        make = noise_streams.keyed_discrete_draw if self.is_discrete else noise_streams.keyed_draw
        return lambda size: self.noise(make(key), size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianAdaptive(_Gaussian):
    """Fresh noise every round, adaptive bound."""

    name: Literal["gaussian_adaptive"] = "gaussian_adaptive"
    is_adaptive: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Tree(_Mechanism):
    """Noise of a binary tree over rounds."""

    restart_rounds: int = 0  # rounds of a tree; 0 means one tree

    @property
    def clip_every(self) -> int:
        return self.restart_rounds or 1

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        return NoiseOfRounds(lambda first: noise_streams.TreeNoise(draw, size, self.restart_rounds))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tree(_Tree):
    """DP-FTRL: noise of a binary tree, fixed bound."""

    name: Literal["tree"] = "tree"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeAdaptive(_Tree):
    """DP-FTRL: noise of a binary tree, the bound adapts when it starts again."""

    name: Literal["tree_adaptive"] = "tree_adaptive"
    is_adaptive: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class BltMechanism(_Mechanism):
    """Buffered linear Toeplitz noise. Raises `ValueError` if they are out of range."""

    name: Literal["blt"] = "blt"
    decays: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        self.matrix()

    def matrix(self) -> Blt:
        return Blt(decays=self.decays, scales=self.scales)

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        return NoiseOfRounds(lambda first: noise_streams.BltNoise(draw, size, self.matrix()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BandedMechanism(_Mechanism):
    """Banded matrix factorisation. Raises `ValueError` if they are out of range."""

    name: Literal["banded"] = "banded"
    bands: tuple[float, ...]  # the diagonals c of C, 1 first

    def __post_init__(self) -> None:
        self.matrix()

    def matrix(self) -> Banded:
        return Banded(coefficients=self.bands)

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        return NoiseOfRounds(lambda first: noise_streams.BandedNoise(draw, size, self.matrix()))


Mechanism: TypeAlias = (
    Gaussian | GaussianAdaptive | Tree | TreeAdaptive | BltMechanism | BandedMechanism
)
NAMES = tuple(tables.variants(Mechanism))


def named(name: str, **numbers: Any) -> Mechanism:
    """The mechanism of a name, with its own numbers.

    Raises `ValueError` if there is no such mechanism, or a number is not its own or out of range.
    """
    return tables.build(Mechanism, {"name": name, **numbers})


def optimal_mechanism(
    name: str,
    *,
    rounds: int,
    min_separation: int,
    max_participations: int = 0,
    restart_rounds: int = 0,
    buffers: int = 2,
    bands: int = 8,
    momentum: float = 0.0,
    error: str = "mean",
) -> Mechanism:
    """The mechanism of a schedule, its coefficients optimised where it has any.

    Arguments and errors are those of `optimal_blt` and `optimal_banded`.
    """
    schedule = {"rounds": rounds, "min_separation": min_separation}
    schedule["max_participations"] = max_participations
    if name == "blt":
        best = optimal_blt(**schedule, buffers=buffers, momentum=momentum, error=error)
        return BltMechanism(decays=best.decays, scales=best.scales)
    if name == "banded":
        banded = optimal_banded(**schedule, bands=bands, momentum=momentum, error=error)
        return BandedMechanism(bands=banded.coefficients)
    return named(name, **({"restart_rounds": restart_rounds} if restart_rounds else {}))


def mechanism_of(
    privacy: privacy_config.MechanismConfig,
    *,
    rounds: int,
    min_separation_rounds: int = 1,
    momentum: float = 0.0,
) -> Mechanism:
    """The mechanism that a config names, on a schedule; see `optimal_mechanism`."""
    if isinstance(privacy, privacy_config.Gaussian):
        return Gaussian(is_discrete=privacy.is_discrete)
    return optimal_mechanism(
        privacy.mechanism,
        rounds=rounds,
        min_separation=min_separation_rounds,
        max_participations=privacy.max_participations,
        restart_rounds=getattr(privacy, "restart_rounds", 0),
        buffers=getattr(privacy, "buffers", 1),
        bands=min(getattr(privacy, "bands", 1), rounds),
        momentum=momentum,
    )
