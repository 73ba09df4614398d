"""Plans a run: the noise for a target epsilon, and the effect of rounds, cohort and separation.

The quality of the model depends on the noise that remains in it: the root mean square, over the
rounds, of the noise in the sum of all mean updates so far, per coordinate, in clip norms,

    error = noise multiplier * sqrt(mean over t of Var[noise of the first t rounds]) / cohort

(without momentum and learning rate, which scale all mechanisms equally to first order). The cohort
is the denominator of the mean: the report goal, or `noise_cohort_size` if it is set.

A plan builds the ledger header of its run by the same function as the run
(`ledger/run_header.py`). Its epsilon is therefore the epsilon of the finished run's statement, with
over-selection, earlier runs and a private vocabulary.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.config.sections.train_config import selected_clients
from tff_keyboard.parts.aggregator import AGGREGATORS
from tff_keyboard.parts.privacy_mechanism import MechanismConfig, mechanism_configs
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.claims.guarantee import guarantee_of, total_guarantee
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.privacy.ledger.run_header import ledger_header
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.storage.checks import require_one_of
from tff_keyboard.storage.errors import UsageError

_MOST_NOISE = 1e6  # largest noise multiplier of a plan
_JUST_LESS = 1.003  # more than the tolerance of a calibration and the rounding of its result
_DIGITS = 4  # of a printed noise multiplier, rounded up
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """The participation of clients in a run.

    >>> Schedule(rounds=2000, cohort=100, population=40_000, min_separation=313).delta
    1e-06

    Attributes:
      rounds: Rounds of the run, >= 1.
      cohort: Client updates that the server aggregates in a round (the report goal), >= 1.
      population: Number of clients that may be drawn; >= selected * min_separation. 0 if devices
        check in by themselves.
      min_separation: A client that joins round i joins no round before i + min_separation; 1 allows
        any round.
      delta: Delta of the statement, in (0, 1).
      over_selection: `train.over_selection`: the server selects this many times `cohort` clients.
        All selected clients count for amplification by sampling.
      checks_in: Whether devices check in by themselves (`serve-rounds`), so that sampling amplifies
        nothing and the population is unknown.

    Raises:
      ValueError: If there are too few clients for the separation, or a number is out of range.
    """

    rounds: int
    cohort: int
    population: int
    min_separation: int = 1
    delta: float = 1e-6
    over_selection: float = 1.0
    checks_in: bool = False

    def __post_init__(self) -> None:
        counts = ("rounds", "cohort", "min_separation")
        for name in counts if self.checks_in else (*counts, "population"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be >= 1, got {getattr(self, name)}.")
        if self.checks_in and self.population:
            raise ValueError(
                f"`population` must be 0 if devices check in, got {self.population}: the ledger of "
                "such a run does not know it."
            )
        if not self.over_selection >= 1:
            raise ValueError(f"`over_selection` must be >= 1, got {self.over_selection!r}.")
        if not 0 < self.delta < 1:
            raise ValueError(f"`delta` must be in (0, 1), got {self.delta!r}.")
        if not self.checks_in and self.population < self.selected * self.min_separation:
            raise ValueError(
                f"`population` must be >= {self.selected * self.min_separation}, got "
                f"{self.population}: each round takes {self.selected} clients, and each client "
                f"waits {self.min_separation} rounds."
            )

    @property
    def selected(self) -> int:
        """Clients drawn per round, with over-selection."""
        return selected_clients(self.cohort, self.over_selection)


class UnreachableTargetError(UsageError):
    """A target epsilon that no amount of noise reaches. The message is one line.

    Attributes:
      mechanism: Name of the mechanism.
      schedule: The schedule of the run.
      smallest_epsilon: The smallest epsilon that the accounting reaches on this schedule.
    """

    def __init__(
        self, mechanism: str, schedule: Schedule, target: float, smallest_epsilon: float, why: str
    ):
        super().__init__(
            f"--target-epsilon={target:g} cannot be reached with {mechanism!r} at delta "
            f"{schedule.delta:g}: {why}. The smallest epsilon that can be stated is "
            f"{smallest_epsilon:.3g}."
        )
        self.mechanism = mechanism
        self.schedule = schedule
        self.smallest_epsilon = smallest_epsilon


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """One mechanism on one schedule, with the noise for a target epsilon.

    >>> found = plan("gaussian", Schedule(rounds=10, cohort=10, population=100), target_epsilon=5.0)
    >>> found.guarantee.epsilon <= 5.0
    True

    Attributes:
      mechanism: Name of the mechanism.
      schedule: The schedule of the run.
      noise_multiplier: The smallest noise multiplier that reaches the target, rounded up to four
        digits.
      guarantee: The guarantee with this noise multiplier, as in the statement of the finished run:
        together with earlier runs on the clients and a private vocabulary, if there are any.
      error: Error of the iterates; see the module.
    """

    mechanism: str
    schedule: Schedule
    noise_multiplier: float
    guarantee: Guarantee
    error: float


def plan(
    name: str,
    schedule: Schedule,
    *,
    target_epsilon: float,
    momentum: float = 0.0,
    **options: Any,
) -> Plan:
    """Finds the least noise of a mechanism that keeps epsilon at or below the target.

    >>> schedule = Schedule(rounds=100, cohort=50, population=1000, min_separation=20)
    >>> f"{plan('tree', schedule, target_epsilon=5.0).noise_multiplier:.1f}"
    '7.4'

    Args:
      name: A mechanism, as in `aggregation.privacy.type`.
      schedule: The participation of clients.
      target_epsilon: The largest allowed epsilon, > 0.
      momentum: Momentum of the server. A BLT is optimised for it, so its epsilon depends on it.
      **options: Options of the mechanism, as in `[aggregation.privacy]`, such as `buffers`.

    Raises:
      UnreachableTargetError: If no noise reaches the target.
      ValueError: If an argument is out of range.
    """
    require_one_of("name", name, mechanism_configs())
    privacy = mechanism_configs()[name](delta=schedule.delta, **options)
    return plan_config(
        AggregationConfig(privacy=privacy, client_weighting="uniform"),
        schedule,
        target_epsilon=target_epsilon,
        momentum=momentum,
    )


def plan_config(
    aggregation: AggregationConfig,
    schedule: Schedule,
    *,
    target_epsilon: float,
    momentum: float = 0.0,
    origin: Mapping[str, Any] | None = None,
) -> Plan:
    """Finds the least noise of the mechanism of a config; see `plan`.

    Args:
      aggregation: The table `[aggregation]`, with a mechanism. Its noise multiplier is ignored.
      schedule: The participation of clients. Its delta is `aggregation.privacy.delta`.
      target_epsilon: The largest allowed epsilon, > 0.
      momentum: Momentum of the server.
      origin: Header fields about the initial model and the vocabulary, as for `ledger_header`.

    Raises:
      UnreachableTargetError: If no noise reaches the target.
      ValueError: If an argument is out of range.
    """
    privacy = aggregation.privacy
    assert isinstance(privacy, MechanismConfig)
    header = planned_header(aggregation, schedule, momentum=momentum, origin=origin)

    def guarantee(noise_multiplier: float) -> Guarantee:
        noised_header = dataclasses.replace(header, noise_multiplier=noise_multiplier)
        return planned_guarantee(noised_header, schedule.rounds)

    noise, reached = _least_noise(guarantee, header, schedule, target_epsilon)
    variance = float(header.mechanism.iterate_variances(schedule.rounds).mean())
    return Plan(
        mechanism=privacy.type,
        schedule=schedule,
        noise_multiplier=noise,
        guarantee=reached,
        error=noise * math.sqrt(variance) / (header.noise_cohort_size or schedule.cohort),
    )


def planned_header(
    aggregation: AggregationConfig,
    schedule: Schedule,
    *,
    momentum: float = 0.0,
    origin: Mapping[str, Any] | None = None,
) -> LedgerHeader:
    """Returns the header that the ledger of the planned run will have, except for its key id.

    A noise multiplier of 0 counts as 1, because a plan is for a run with noise.

    Args and errors: as for `plan_config`.
    """
    privacy = aggregation.privacy
    assert isinstance(privacy, MechanismConfig)
    source: noise_key.Source = noise_key.SECRET if privacy.noise_secret else noise_key.NONCE
    if privacy.fixed_nonce:
        source = noise_key.FIXED_NONCE
    key = noise_key.NoiseKey(key=bytes(32), source=source)
    return dataclasses.replace(
        ledger_header(
            aggregation,
            population=schedule.population,
            clients_per_round=schedule.cohort,
            selected_per_round=schedule.selected,
            min_separation_rounds=schedule.min_separation,
            mechanism=privacy.mechanism(
                rounds=schedule.rounds,
                min_separation_rounds=schedule.min_separation,
                momentum=momentum,
            ),
            key=key,
            checks_in=schedule.checks_in,
            origin=origin,
        ),
        noise_multiplier=privacy.noise_multiplier or 1.0,
        key_id="",
    )


def planned_guarantee(header: LedgerHeader, rounds: int) -> Guarantee:
    """Returns the guarantee of the finished run and of the earlier runs on its clients.

    If there is none, for example because an earlier run was not private, returns the guarantee of
    this run alone.
    """
    return total_guarantee(header, rounds) or guarantee_of(header, rounds)


def mechanisms_to_compare(aggregation: AggregationConfig) -> dict[str, AggregationConfig]:
    """Returns configs with other mechanisms, and with the config's own, by the mechanism's name.

    They have the delta, the nonce and the simulated cohort of the config. Omits mechanisms that the
    config's aggregator does not support. A config without privacy is planned for a mean.
    """
    run_privacy = aggregation.privacy
    configs = {}
    for name, options in mechanism_configs().items():
        if not options.is_compared and name != run_privacy.type:
            continue
        privacy = run_privacy
        if run_privacy.type != name:
            shared: dict[str, Any] = {}
            if isinstance(run_privacy, MechanismConfig):
                fields = [field.name for field in dataclasses.fields(MechanismConfig)]
                shared = {key: getattr(run_privacy, key) for key in fields if key != "type"}
            privacy = options(**shared)
        rule = AGGREGATORS["mean"]() if aggregation.rule.privacy_problem else aggregation.rule
        try:
            configs[name] = AggregationConfig(
                rule=rule, privacy=privacy, client_weighting="uniform"
            )
        except ValueError:
            if run_privacy.type == name:
                raise
    return configs


def _least_noise(
    guarantee: Callable[[float], Guarantee],
    header: LedgerHeader,
    schedule: Schedule,
    target: float,
) -> tuple[float, Guarantee]:
    """Returns the least noise multiplier for a target, rounded up, and its guarantee."""
    if not target > 0:
        raise ValueError(f"`target_epsilon` must be > 0, got {target!r}.")
    name = header.mechanism.name
    try:
        noise = accounting.calibrate_noise_multiplier(guarantee, target_epsilon=target)
    except ValueError:
        smallest = guarantee(_MOST_NOISE).epsilon
        why = f"a noise multiplier of {_MOST_NOISE:g} is not enough"
        if header.ancestors or header.vocabulary_rho:
            why = "earlier runs on the clients and the vocabulary alone cost more"
        raise UnreachableTargetError(name, schedule, target, smallest, why) from None
    noise = _rounded_up(noise)
    reached = guarantee(noise)
    if not reached.epsilon:
        # So much noise is (0, delta)-private by the accounting of RDP: epsilon jumps to 0.
        smallest = guarantee(noise / _JUST_LESS).epsilon
        why = "with more noise, the accounting leaves no epsilon and delta bounds everything"
        raise UnreachableTargetError(name, schedule, target, smallest, why)
    return noise, reached


def _rounded_up(number: float) -> float:
    """Returns the number, rounded up to `_DIGITS` digits, so that a printed plan keeps its target.

    The result is exactly the number that its decimal digits name.
    """
    exponent = _DIGITS - 1 - math.floor(math.log10(number))
    digits = math.ceil(number * 10.0**exponent - 1e-9)
    return float(f"{digits}e{-exponent}")


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
        selected = selected_clients(cohort, schedule.over_selection)
        longest = schedule.population // selected
        if schedule.checks_in:
            longest = schedule.min_separation
        if longest:
            separation = min(schedule.min_separation, longest)
            cohorts.append(replace(schedule, cohort=cohort, min_separation=separation))
        separation = max(1, round(factor * schedule.min_separation))
        if schedule.checks_in or separation * schedule.selected <= schedule.population:
            separations.append(replace(schedule, min_separation=separation))
    variants = {"rounds": rounds, "cohort": cohorts, "separation": separations}
    return {name: list(dict.fromkeys(schedules)) for name, schedules in variants.items()}


def plans_table(plans: Sequence[Plan | UnreachableTargetError]) -> str:
    """Returns the plans as a text table for a terminal."""
    lines = [
        f"{'mechanism':10} {'rounds':>7} {'cohort':>7} {'separation':>10} {'multiplier':>10} "
        f"{'rho':>8} {'epsilon':>8} {'error':>10}"
    ]
    for plan in plans:
        schedule = plan.schedule
        line = (
            f"{plan.mechanism:10} {schedule.rounds:7} {schedule.cohort:7} "
            f"{schedule.min_separation:10} "
        )
        if isinstance(plan, UnreachableTargetError):
            lines.append(f"{line}not reachable: epsilon >= {plan.smallest_epsilon:.3g}")
            continue
        rho, epsilon = plan.guarantee.rho, plan.guarantee.epsilon
        lines.append(
            f"{line}{plan.noise_multiplier:10.4g} "
            f"{'-' if rho is None else format(rho, '.4f' if rho >= 1e-3 else '.2g'):>8} "
            f"{format(epsilon, '.3f' if epsilon >= 0.1 else '.3g'):>8} {plan.error:10.3e}"
        )
    return "\n".join(lines)
