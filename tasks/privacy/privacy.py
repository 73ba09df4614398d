"""Prints the privacy guarantee of runs, or the noise that a planned run needs.

tff-keyboard privacy runs/sms                      the statement: unit, mechanism, epsilon, ...
tff-keyboard privacy runs/a runs/b                 both, and the total for clients in both runs
tff-keyboard privacy runs/sms --rounds=500         also the epsilon if the run is resumed
tff-keyboard privacy --target-epsilon=4 --config=configs/my.toml --population=20000

--target-epsilon computes the smallest noise multiplier for the config's schedule, for each
mechanism. It also shows how the number of rounds, the cohort size and the separation change the
noise that remains in the model. The planned epsilon is the epsilon of the finished run's statement:
it counts the selected clients (`train.over_selection`), earlier runs on the same clients
(`model.initial_model`) and a private vocabulary of the store. --devices plans a run of
`serve-rounds`.
"""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

from absl import flags

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.optimizers.registry.fedavgm import FedAvgM
from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.parts import own_part
from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard.storage.errors import UsageError, printable

if TYPE_CHECKING:
    from tff_keyboard.privacy.claims.planning import Plan, UnreachableTargetError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `privacy`."""

    run_dirs: Annotated[tuple[pathlib.Path, ...], Positional("run directories")] = ()
    target_epsilon: Annotated[float | None, "Plan a run: the largest epsilon allowed."] = None
    config: Annotated[pathlib.Path | None, "Plan a run: TOML file with the schedule."] = None
    population: Annotated[int | None, "Plan a run: number of clients that can be sampled."] = None
    devices: Annotated[bool, "Plan a run of `serve-rounds`, without --population."] = False
    rounds: Annotated[
        int | None,
        "With run directories: also print epsilon after so many rounds.",
        flags.IntegerParser(1),
    ] = None
    set: Annotated[
        tuple[str, ...], "Plan a run: override a config key: `section.key=value`. Repeatable."
    ] = ()

    def __post_init__(self) -> None:
        if self.target_epsilon is None:
            if not self.run_dirs:
                raise UsageError("Pass a run directory, or --target-epsilon to plan a run.")
            if self.config or self.population or self.devices or self.set:
                raise UsageError(
                    "--config, --population, --devices and --set require --target-epsilon."
                )
        elif self.run_dirs:
            raise UsageError("Pass run directories or --target-epsilon, not both.")
        elif not self.target_epsilon > 0:
            raise UsageError(f"--target-epsilon must be > 0, got {self.target_epsilon}.")
        elif self.rounds is not None:
            raise UsageError("--rounds requires run directories. Plan with --set=train.rounds=N.")
        elif self.devices:
            if self.population is not None:
                raise UsageError("Pass --population or --devices, not both.")
        elif self.population is None:
            raise UsageError("Pass --population, the number of clients that can be sampled.")


def run(options: Options) -> None:
    """Prints the statements of the runs' ledgers, or a plan.

    Raises:
      UsageError: If no noise reaches the target, or the population is too small.
      RunDirectoryError: If a run made no privacy claim, if its ledger is damaged, or if two runs
        share a noise key.
    """
    if options.target_epsilon is not None:
        print(plan(options, options.target_epsilon))
        return
    from tff_keyboard.privacy.ledger import ledger
    from tff_keyboard.storage import names

    paths = [run_dir / names.LEDGER for run_dir in options.run_dirs]
    for path in paths:
        ledger.read_ledger(path)  # before the import of the accounting, which takes two seconds
    ledger.refuse_shared_noise(paths)
    from tff_keyboard.privacy.claims import composed_statement, plan_remarks, statement

    texts = [statement.privacy_statement(path) for path in paths]
    if options.rounds is not None:
        texts = [
            f"{text}\n\n{plan_remarks.resumed_line(path, options.rounds)}"
            for path, text in zip(paths, texts, strict=True)
        ]
    if len(texts) > 1:
        texts = [
            f"{printable(str(path), max_characters=None)}\n\n{text}"
            for path, text in zip(options.run_dirs, texts, strict=True)
        ]
        runs = dict.fromkeys(options.run_dirs)
        together = composed_statement.composed_statement(
            {str(path): composed_statement.LedgerAndClients.of_run(path) for path in runs}
        )
        texts += [together] if together else []
    print("\n\n".join(texts))


def plan(options: Options, target_epsilon: float) -> str:
    """Returns the tables of a plan.

    Raises:
      UsageError: If no noise reaches the target, or the population is too small.
    """
    from tff_keyboard.privacy.claims import plan_remarks, planning
    from tff_keyboard.training import run_plan

    config = config_lib.load(options.config, options.set)
    privacy = config.aggregation.privacy
    claims = privacy if isinstance(privacy, MechanismConfig) else GaussianConfig()
    try:
        schedule = planning.Schedule(
            rounds=config.train.rounds,
            cohort=config.train.clients_per_round,
            population=options.population or 0,
            min_separation=config.train.min_separation_rounds,
            delta=claims.delta,
            over_selection=config.train.over_selection,
            checks_in=options.devices,
        )
    except ValueError as error:
        raise UsageError(f"--population does not fit the config: {error}") from None
    origin = run_plan.planned_origin(
        config.data.store,
        config.model.initial_model,
        secret=claims.noise_secret,
        checks_in=options.devices,
        unchecked_parts=own_part.unchecked(config),
        unknown_weights=config.model.unknown_weights,
        secure_sums=options.devices and config.devices.secure_sums,
    )
    configs = planning.mechanisms_to_compare(config.aggregation)

    def planned(name: str, schedule: planning.Schedule) -> "Plan | UnreachableTargetError":
        """Plans one mechanism for a schedule. Returns the error if no noise reaches the target."""
        try:
            return planning.plan_config(
                configs[name],
                schedule,
                target_epsilon=target_epsilon,
                momentum=config.server.momentum if isinstance(config.server, FedAvgM) else 0.0,
                origin=origin,
            )
        except planning.UnreachableTargetError as error:
            return error

    compared = [planned(name, schedule) for name in configs]
    plans_in_reach = [one for one in compared if isinstance(one, planning.Plan)]
    if not plans_in_reach:
        raise min(
            (one for one in compared if isinstance(one, planning.UnreachableTargetError)),
            key=lambda error: error.smallest_epsilon,
        )
    best = min(plans_in_reach, key=lambda one: one.error).mechanism
    planned_privacy = configs.get("gaussian", configs[best])
    header = planning.planned_header(planned_privacy, schedule, origin=origin)
    protected = f"a population of {schedule.population}" if schedule.population else "devices"
    parts = [
        f"Smallest noise for epsilon <= {target_epsilon:g} at delta "
        f"{plans_in_reach[0].guarantee.delta:g}, with {protected}.\n"
        "multiplier: `noise_multiplier`. error: noise in one coordinate of the sum over rounds, "
        "root mean square over all rounds, in clip norms. In two trainings of docs/privacy.md, an "
        "error of 0.02 cost no recall, and one of 0.09 cost 16 points of top-1 recall.",
        planning.plans_table(compared),
    ]
    for varied, schedules in planning.schedules_around(schedule).items():
        plans = [planned(best, one) for one in schedules]
        parts.append(f"{best}, with other {varied}:\n{planning.plans_table(plans)}")
    remarks = plan_remarks.plan_remarks(
        header,
        store_clients=run_plan.train_clients(config.data.store),
        rehearses=bool(config.fine_tuning.general_store),
    )
    return "\n\n".join([*parts, "\n".join(remarks)])
