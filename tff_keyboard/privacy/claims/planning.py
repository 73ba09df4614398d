"""Plans a run: the noise a target epsilon needs, and what rounds, cohort and separation change.

What counts for the model is the noise that is left in it: the root mean square, over the rounds, of
the noise in the sum of all mean deltas so far, per coordinate, in clip norms,

    error = noise multiplier * sqrt(mean over t of Var[noise of the first t rounds]) / cohort

(without momentum and learning rate, which scale all mechanisms alike to first order).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.privacy.mechanisms import mechanism, toeplitz

# Adaptive clipping costs the same: the multiplier is that of delta and count together.
COMPARED = ("gaussian", "tree", "banded", "blt")
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """Who joins when.

    Attributes:
      rounds: Rounds of the run, >= 1.
      cohort: People a round, >= 1.
      population: People who may be drawn; >= cohort * min_separation.
      min_separation: A person who joins round i joins none before i + this; 1 is any round.
      max_participations: Rounds a person joins at most; 0 means what the separation allows.
      delta: Delta of the statement, in (0, 1).

    Raises:
      ValueError: There are too few people for the separation, or a number is out of range.
    """

    rounds: int
    cohort: int
    population: int
    min_separation: int = 1
    max_participations: int = 0
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("rounds", "cohort", "population", "min_separation"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be >= 1, got {getattr(self, name)}.")
        if not 0 < self.delta < 1:
            raise ValueError(f"`delta` must be in (0, 1), got {self.delta!r}.")
        if self.population < self.cohort * self.min_separation:
            raise ValueError(
                f"{self.population} people are too few for {self.cohort} a round, none again "
                f"before {self.min_separation} rounds: that takes "
                f"{self.cohort * self.min_separation}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """One mechanism on one schedule at a target.

    Attributes:
      mechanism: Name of the mechanism.
      schedule: The schedule it is for.
      noise_multiplier: The least that reaches the target.
      guarantee: The guarantee it gives.
      error: Error of the iterates; see the module.
    """

    mechanism: str
    schedule: Schedule
    noise_multiplier: float
    guarantee: accounting.Guarantee
    error: float


def plan(
    name: str,
    schedule: Schedule,
    *,
    target_epsilon: float,
    buffers: int = 2,
    bands: int = 8,
    restart_rounds: int = 0,
    momentum: float = 0.0,
) -> Plan:
    """The least noise of a mechanism that keeps epsilon at or below the target.

    Args:
      name: One of `mechanism.NAMES`.
      schedule: Who joins when.
      target_epsilon: Epsilon to be reached, > 0.
      buffers: Buffers of a BLT.
      bands: Bands of a banded matrix.
      restart_rounds: Rounds of a tree; 0 is never.
      momentum: Momentum of the server: a BLT or a banded matrix is optimised for it, and costs
        another epsilon with another.

    Raises:
      ValueError: No noise multiplier up to a million reaches the target, or an argument is wrong.
    """
    best = mechanism.optimal_mechanism(
        name,
        rounds=schedule.rounds,
        min_separation=schedule.min_separation,
        max_participations=schedule.max_participations,
        buffers=buffers,
        bands=min(bands, schedule.rounds),
        restart_rounds=restart_rounds,
        momentum=momentum,
    )

    def guarantee(noise_multiplier: float) -> accounting.Guarantee:
        return guarantee_of(_header(best, schedule, noise_multiplier), schedule.rounds)

    noise = accounting.calibrate_noise_multiplier(guarantee, target_epsilon=target_epsilon)
    variance = float(iterate_variances(best, schedule.rounds).mean())
    return Plan(
        mechanism=name,
        schedule=schedule,
        noise_multiplier=noise,
        guarantee=guarantee(noise),
        error=noise * math.sqrt(variance) / schedule.cohort,
    )


def iterate_variances(noise: mechanism.Mechanism, rounds: int) -> np.ndarray:
    """Variance of the noise in the sum of the first t rounds, t = 1.., in draws; [rounds] float64.

    >>> iterate_variances(mechanism.Gaussian(), 3)
    array([1., 2., 3.])
    """
    matrix = noise.matrix()
    if matrix is not None:
        return toeplitz.iterate_variances(matrix.inverse(rounds), toeplitz.prefix_sums(rounds))
    if noise.is_independent:
        return np.arange(1.0, rounds + 1)
    assert isinstance(noise, mechanism.Tree | mechanism.TreeAdaptive)
    tree_rounds = noise.restart_rounds or rounds
    one_tree = np.array([_honaker(t) for t in range(1, tree_rounds + 1)])
    trees = -(-rounds // tree_rounds)
    return np.concatenate([one_tree + i * one_tree[-1] for i in range(trees)])[:rounds]


def schedules_around(schedule: Schedule) -> dict[str, list[Schedule]]:
    """The schedule with other rounds, cohorts and separations, where the population allows them.

    A larger cohort shortens the separation that the population can keep.
    """
    replace = dataclasses.replace
    rounds = [replace(schedule, rounds=max(1, round(f * schedule.rounds))) for f in _FACTORS]
    cohorts, separations = [], []
    for factor in _FACTORS:
        cohort = max(1, round(factor * schedule.cohort))
        longest = schedule.population // cohort
        if longest:
            separation = min(schedule.min_separation, longest)
            cohorts.append(replace(schedule, cohort=cohort, min_separation=separation))
        separation = max(1, round(factor * schedule.min_separation))
        if separation * schedule.cohort <= schedule.population:
            separations.append(replace(schedule, min_separation=separation))
    found = {"rounds": rounds, "cohort": cohorts, "separation": separations}
    return {name: list(dict.fromkeys(schedules)) for name, schedules in found.items()}


def plans_table(plans: Sequence[Plan]) -> str:
    """The plans as text for a terminal."""
    lines = [
        f"{'mechanism':10} {'rounds':>7} {'cohort':>7} {'separation':>10} {'multiplier':>10} "
        f"{'rho':>8} {'epsilon':>8} {'error':>10}"
    ]
    for found in plans:
        rho = found.guarantee.rho
        lines.append(
            f"{found.mechanism:10} {found.schedule.rounds:7} {found.schedule.cohort:7} "
            f"{found.schedule.min_separation:10} {found.noise_multiplier:10.4g} "
            f"{'-' if rho is None else format(rho, '.4f'):>8} {found.guarantee.epsilon:8.3f} "
            f"{found.error:10.3e}"
        )
    return "\n".join(lines)


def _header(noise: mechanism.Mechanism, schedule: Schedule, multiplier: float) -> LedgerHeader:
    return LedgerHeader(
        mechanism=noise,
        aggregator="mean",
        noise_multiplier=multiplier,
        clip_norm=1.0,
        delta=schedule.delta,
        population=schedule.population,
        clients_per_round=schedule.cohort,
        selected_per_round=schedule.cohort,
        sampling="fixed_size",
        uniform_sampling=schedule.min_separation == 1,
        secret_cohorts=True,
        min_separation_rounds=schedule.min_separation,
        max_participations=schedule.max_participations,
    )


def _honaker(leaves: int) -> float:
    """Variance of Honaker's estimate of the sum of so many leaves."""
    heights = (h for h in range(leaves.bit_length()) if leaves >> h & 1)
    return sum(1 / (2 - 2.0**-height) for height in heights)
