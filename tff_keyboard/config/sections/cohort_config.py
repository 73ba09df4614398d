"""`[train.cohort]`: how many clients a round has, chosen by `kind`."""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading.checks import FromOne, Range
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class SteadyCohort(Table, path="train.cohort"):
    """`train.clients_per_round` clients in every round."""

    kind: Literal["steady"] = "steady"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GrowingCohort(Table, path="train.cohort"):
    """`train.clients_per_round` clients at first, then more: calms a training as decay does.

    Attributes:
      every_rounds: Rounds between steps of growth, >= 1.
      factor: Factor of growth at each step, > 1.
      most: Clients of a round at most.
    """

    kind: Literal["growing"] = "growing"
    every_rounds: FromOne
    factor: Annotated[float, Range("> 1", lambda factor: 1 < factor < 1e6)] = 2.0
    most: FromOne


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
