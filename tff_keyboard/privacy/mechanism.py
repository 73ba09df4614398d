"""What kind of noise a run adds, with every number that fixes it: resolved once, recorded, reused.

Coefficients of correlated noise are optimised for the schedule a run begins with. They are recorded
in the ledger's header and read from there on resume: a run that is given more rounds, or another
version of SciPy, keeps the mechanism it began with (and stays private: S grows with the rounds).
"""

import dataclasses

from tff_keyboard.privacy import toeplitz
from tff_keyboard.privacy.banded import Banded, optimal_banded
from tff_keyboard.privacy.blt import Blt, optimal_blt
from tff_keyboard.privacy.noise_streams import (
    BandedNoise,
    BltNoise,
    Draw,
    IndependentNoise,
    NoiseOfRounds,
    NoiseStream,
    TreeNoise,
)

GAUSSIAN = ("gaussian", "gaussian_adaptive")
TREES = ("tree", "tree_adaptive")
BLT = "blt"
BANDED = "banded"
NAMES = (*GAUSSIAN, *TREES, BLT, BANDED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One mechanism, ready to make noise and to be accounted for.

    Attributes:
      name: One of `NAMES`.
      restart_rounds: Trees: rounds of a tree; 0 means one tree.
      decays: BLT: lambda_i.
      scales: BLT: s_i.
      bands: Banded: the diagonals c of C, 1 first.
      is_discrete: "gaussian": noise is a discrete Gaussian.

    Raises:
      ValueError: The numbers do not fit the name.
    """

    name: str
    restart_rounds: int = 0
    decays: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    bands: tuple[float, ...] = ()
    is_discrete: bool = False

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"`name` must be one of {', '.join(NAMES)}, got {self.name!r}.")
        for field, owners in (
            ("restart_rounds", TREES),
            ("decays", (BLT,)),
            ("scales", (BLT,)),
            ("bands", (BANDED,)),
            ("is_discrete", GAUSSIAN[:1]),
        ):
            if getattr(self, field) and self.name not in owners:
                raise ValueError(f"`{field}` does not belong to the mechanism {self.name!r}.")
        self.matrix()  # refuses coefficients out of range

    @property
    def is_independent(self) -> bool:
        """Whether every round has noise of its own, so that sampling may amplify privacy."""
        return self.name in GAUSSIAN

    @property
    def clip_every(self) -> int:
        """Rounds between changes of an adaptive clip norm."""
        return self.restart_rounds or 1

    def matrix(self) -> toeplitz.ToeplitzNoise | None:
        """C of correlated noise; None for the others."""
        if self.name == BLT:
            return Blt(decays=self.decays, scales=self.scales)
        if self.name == BANDED:
            return Banded(coefficients=self.bands)
        return None

    def noise(self, draw: Draw, size: int) -> NoiseOfRounds:
        """The noise of any round, in units of one draw.

        Args:
          draw: The generator, keyed for this run.
          size: Numbers a round.
        """
        if self.is_independent:
            return NoiseOfRounds(
                lambda first: IndependentNoise(draw, size, first), starts_anywhere=True
            )
        return NoiseOfRounds(lambda first: self._stream(draw, size))

    def _stream(self, draw: Draw, size: int) -> NoiseStream:
        matrix = self.matrix()
        if isinstance(matrix, Blt):
            return BltNoise(draw, size, matrix)
        if isinstance(matrix, Banded):
            return BandedNoise(draw, size, matrix)
        return TreeNoise(draw, size, self.restart_rounds)


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

    Args:
      name: One of `NAMES`.
      rounds: Of the run.
      min_separation: As the cohort sampler enforces it, >= 1.
      max_participations: Rounds a person joins at most; 0 means what the separation allows.
      restart_rounds: Of trees.
      buffers: Of a BLT, 1..4.
      bands: Of a banded matrix, 1..rounds.
      momentum: Of the server: what the noise is to be small under.
      error: "mean" or "max" over the iterates.

    Raises:
      ValueError: An argument is out of range.
    """
    schedule = {
        "rounds": rounds,
        "min_separation": min_separation,
        "max_participations": max_participations,
    }
    if name == BLT:
        best = optimal_blt(**schedule, buffers=buffers, momentum=momentum, error=error)
        return Mechanism(name=name, decays=best.decays, scales=best.scales)
    if name == BANDED:
        banded = optimal_banded(**schedule, bands=bands, momentum=momentum, error=error)
        return Mechanism(name=name, bands=banded.coefficients)
    return Mechanism(name=name, restart_rounds=restart_rounds)
