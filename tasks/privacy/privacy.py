"""Prints the privacy guarantee of runs, or the noise that a planned run needs.

tff-keyboard privacy runs/sms                      the statement: unit, mechanism, epsilon, ...
tff-keyboard privacy runs/a runs/b                 both, and the total for clients in both runs
tff-keyboard privacy --target-epsilon=4 --config=configs/my.toml --population=20000

--target-epsilon computes the smallest noise multiplier for the config's schedule, for each
mechanism. It also shows how the number of rounds, the cohort size and the separation change the
noise that remains in the model.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import Positional, TaskOptions
from tff_keyboard import config as config_lib
from tff_keyboard.config.sections.privacy_config import BltConfig, GaussianConfig, MechanismConfig
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `privacy`."""

    run_dirs: Annotated[tuple[pathlib.Path, ...], Positional("run directories")] = ()
    target_epsilon: Annotated[float | None, "Plan a run: the largest epsilon allowed."] = None
    config: Annotated[pathlib.Path | None, "Plan a run: TOML file with the schedule."] = None
    population: Annotated[int | None, "Plan a run: number of clients that can be sampled."] = None
    set: Annotated[
        tuple[str, ...], "Plan a run: override a config key: `section.key=value`. Repeatable."
    ] = ()

    def __post_init__(self) -> None:
        if self.target_epsilon is None:
            if not self.run_dirs:
                raise UsageError("Pass a run directory, or --target-epsilon to plan a run.")
            if self.config or self.population or self.set:
                raise UsageError("--config, --population and --set require --target-epsilon.")
        elif self.run_dirs:
            raise UsageError("Pass run directories or --target-epsilon, not both.")
        elif not self.target_epsilon > 0:
            raise UsageError(f"--target-epsilon must be > 0, got {self.target_epsilon}.")
        elif self.population is None:
            raise UsageError("Pass --population, the number of clients that can be sampled.")


def run(options: Options) -> None:
    """Prints the statements of the runs' ledgers, or a plan.

    Raises:
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
    from tff_keyboard.privacy.claims import composed_statement, statement

    texts = [statement.privacy_statement(path) for path in paths]
    if len(texts) > 1:
        texts = [f"{path}\n\n{text}" for path, text in zip(options.run_dirs, texts, strict=True)]
        runs = dict.fromkeys(options.run_dirs)
        together = composed_statement.composed_statement(
            {str(path): composed_statement.LedgerAndClients.of_run(path) for path in runs}
        )
        texts += [together] if together else []
    print("\n\n".join(texts))


def plan(options: Options, target_epsilon: float) -> str:
    """Returns the tables of a plan."""
    from tff_keyboard.privacy.claims import planning

    config = config_lib.load(options.config, options.set)
    assert options.population is not None
    privacy = config.aggregation.privacy
    claims = privacy if isinstance(privacy, MechanismConfig) else GaussianConfig()
    schedule = planning.Schedule(
        rounds=config.train.rounds,
        cohort=config.train.clients_per_round,
        population=options.population,
        min_separation=config.train.min_separation_rounds,
        delta=claims.delta,
    )

    def planned(name: str, one: planning.Schedule, epsilon: float) -> planning.Plan:
        return planning.plan(
            name,
            one,
            target_epsilon=epsilon,
            buffers=privacy.buffers if isinstance(privacy, BltConfig) else BltConfig().buffers,
            momentum=getattr(config.server, "momentum", 0.0),
        )

    compared = [planned(name, schedule, target_epsilon) for name in planning.COMPARED]
    best = min(compared, key=lambda found: found.error).mechanism
    parts = [
        f"Smallest noise for epsilon <= {target_epsilon:g} at delta {schedule.delta:g}, with a "
        f"population of {schedule.population}.\n"
        "The guarantee of `gaussian` holds only if the sampled clients of each round stay secret.\n"
        "multiplier: `noise_multiplier`. error: noise in one coordinate of the sum over rounds, "
        "root mean square over all rounds, in clip norms.",
        planning.plans_table(compared),
    ]
    for varied, schedules in planning.schedules_around(schedule).items():
        plans = [planned(best, one, target_epsilon) for one in schedules]
        parts.append(f"{best}, with other {varied}:\n{planning.plans_table(plans)}")
    return "\n\n".join(parts)
