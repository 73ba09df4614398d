"""`[train.cohort]`: how many clients a round has, chosen by `kind`."""

import dataclasses
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.checks import require, require_at_least
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class SteadyCohort(Table):
    """`train.clients_per_round` clients in every round."""

    PATH: ClassVar[str] = "train.cohort"

    kind: Literal["steady"] = "steady"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GrowingCohort(Table):
    """`train.clients_per_round` clients at first, then more: calms a training as decay does.

    Attributes:
      every_rounds: Rounds between steps of growth, >= 1.
      factor: Factor of growth at each step, > 1.
      most: Clients of a round at most.
    """

    PATH: ClassVar[str] = "train.cohort"

    kind: Literal["growing"] = "growing"
    every_rounds: int
    factor: float = 2.0
    most: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(f"{self.PATH}.every_rounds", self.every_rounds, 1)
        require(1 < self.factor < 1e6, f"{self.PATH}.factor", "must be > 1", self.factor)
        require_at_least(f"{self.PATH}.most", self.most, 1)


CohortConfig: TypeAlias = SteadyCohort | GrowingCohort


def clients_in_round(cohort: CohortConfig, clients_per_round: int, round_num: int) -> int:
    """Clients of a round, a pure function of its number (rounds before 1 are as round 1).

    >>> growing = GrowingCohort(every_rounds=10, most=35)
    >>> [clients_in_round(growing, 10, t) for t in (0, 1, 10, 11, 21, 10**9)]
    [10, 10, 10, 20, 35, 35]
    """
    if isinstance(cohort, SteadyCohort):
        return clients_per_round
    steps = (max(round_num, 1) - 1) // cohort.every_rounds
    grown, most = float(clients_per_round), max(cohort.most, clients_per_round)
    for _ in range(steps):
        grown *= cohort.factor
        if grown >= most:
            return most
    return round(grown)
