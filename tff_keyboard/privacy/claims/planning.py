"""Plans a run: the noise for a target epsilon, and the effect of rounds, cohort and separation.

The quality of the model depends on the noise that remains in it: the root mean square, over the
rounds, of the noise in the sum of all mean updates so far, per coordinate, in clip norms,

    error = noise multiplier * sqrt(mean over t of Var[noise of the first t rounds]) / cohort

(without momentum and learning rate, which scale all mechanisms equally to first order).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.ledger.ledger_header import FIXED_SIZE, LedgerHeader
from tff_keyboard.privacy.mechanisms import mechanism, toeplitz

# Adaptive clipping costs the same: its multiplier is for update and count together.
COMPARED = ("gaussian", "tree", "blt")
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """The participation of clients in a run.

    >>> Schedule(rounds=2000, cohort=100, population=40_000, min_separation=313).delta
    1e-06

    Attributes:
      rounds: Rounds of the run, >= 1.
      cohort: Clients per round, >= 1.
      population: Number of clients that may be drawn; >= cohort * min_separation.
      min_separation: A client that joins round i joins no round before i + min_separation; 1 allows
        any round.
      delta: Delta of the statement, in (0, 1).

    Raises:
      ValueError: If there are too few clients for the separation, or a number is out of range.
    """

    rounds: int
    cohort: int
    population: int
    min_separation: int = 1
    delta: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("rounds", "cohort", "population", "min_separation"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be >= 1, got {getattr(self, name)}.")
        if not 0 < self.delta < 1:
            raise ValueError(f"`delta` must be in (0, 1), got {self.delta!r}.")
        if self.population < self.cohort * self.min_separation:
            raise ValueError(
                f"`population` must be >= {self.cohort * self.min_separation}, got "
                f"{self.population}: each round takes {self.cohort} clients, and each client waits "
                f"{self.min_separation} rounds."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """One mechanism on one schedule, with the noise for a target epsilon.

    >>> found = plan("gaussian", Schedule(rounds=10, cohort=10, population=100), target_epsilon=5.0)
    >>> found.guarantee.epsilon <= 5.0
    True

    Attributes:
      mechanism: Name of the mechanism.
      schedule: The schedule of the run.
      noise_multiplier: The smallest noise multiplier that reaches the target.
      guarantee: The guarantee with this noise multiplier.
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
    momentum: float = 0.0,
) -> Plan:
    """Finds the least noise of a mechanism that keeps epsilon at or below the target.

    >>> schedule = Schedule(rounds=100, cohort=50, population=1000, min_separation=20)
    >>> f"{plan('tree', schedule, target_epsilon=5.0).noise_multiplier:.1f}"
    '7.4'

    Args:
      name: One of `mechanism.NAMES`.
      schedule: The participation of clients.
      target_epsilon: The largest allowed epsilon, > 0.
      buffers: Number of buffers of a BLT.
      momentum: Momentum of the server. A BLT is optimised for it, so its epsilon depends on it.

    Raises:
      ValueError: If no noise multiplier up to a million reaches the target, or an argument is out
        of range.
    """
    best = mechanism.optimal_mechanism(
        name,
        rounds=schedule.rounds,
        min_separation=schedule.min_separation,
        buffers=buffers,
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
    """Returns the noise variances of the sums of the first t rounds, in draws, [rounds] float64.

    >>> iterate_variances(mechanism.Gaussian(), 3)
    array([1., 2., 3.])
    """
    matrix = noise.matrix()
    if matrix is not None:
        return toeplitz.iterate_variances(matrix.inverse(rounds), toeplitz.prefix_sums(rounds))
    if noise.is_independent:
        return np.arange(1.0, rounds + 1)
    assert isinstance(noise, mechanism.Tree)
    return np.array([_honaker(t) for t in range(1, rounds + 1)])


def schedules_around(schedule: Schedule) -> dict[str, list[Schedule]]:
    """Returns variants of the schedule with other rounds, cohorts and separations.

    Omits variants that the population does not allow. A larger cohort shortens the separation if
    the population requires it.
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
    """Returns the plans as a text table for a terminal."""
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
        sampling=FIXED_SIZE,
        uniform_sampling=schedule.min_separation == 1,
        secret_cohorts=True,
        min_separation_rounds=schedule.min_separation,
    )


def _honaker(leaves: int) -> float:
    """Returns the variance of Honaker's estimate of the sum of `leaves` leaves."""
    heights = (h for h in range(leaves.bit_length()) if leaves >> h & 1)
    return sum(1 / (2 - 2.0**-height) for height in heights)
