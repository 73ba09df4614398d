"""Prints what runs guarantee, or what noise a planned run needs.

tff-keyboard privacy runs/sms                      the statement: unit, mechanism, epsilon, ...
tff-keyboard privacy runs/a runs/b                 both, and together: what they cost who is in both
tff-keyboard privacy --target-epsilon=4 --config=configs/my.toml --population=20000 --plot=plan.svg

The last one finds the least noise multiplier for the config's schedule under every mechanism, and
shows how rounds, cohort and separation move the noise that is left in the model.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import TaskOptions, Words
from tff_keyboard import config as config_lib
from tff_keyboard.config.sections.privacy_config import Banded, Blt, Gaussian, MechanismConfig
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    run_dirs: Annotated[tuple[pathlib.Path, ...], Words("run directories")] = ()
    target_epsilon: Annotated[float | None, "Plan: epsilon that may not be exceeded."] = None
    config: Annotated[pathlib.Path | None, "Plan: TOML file with the schedule."] = None
    population: Annotated[int | None, "Plan: people who may be drawn."] = None
    plot: Annotated[pathlib.Path | None, "Plan: SVG file of error against epsilon."] = None
    set: Annotated[tuple[str, ...], "Override `section.key=value`; may be repeated."] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_epsilon is None:
            if not self.run_dirs:
                raise UsageError("Give a run directory, or --target-epsilon to plan a run.")
            if self.config or self.population or self.plot or self.set:
                raise UsageError("--config, --population, --plot and --set need --target-epsilon.")
        elif self.run_dirs:
            raise UsageError("Give run directories or --target-epsilon, not both.")
        elif not self.target_epsilon > 0:
            raise UsageError(f"--target-epsilon must be > 0, got {self.target_epsilon}.")
        elif self.population is None:
            raise UsageError("Give --population, the number of people who may be drawn.")


def run(options: Options) -> None:
    """Prints the statements of the runs' ledgers, or a plan.

    Raises:
      RunDirectoryError: A run made no privacy claim, its ledger is damaged, or two runs have one
        noise key.
    """
    if options.target_epsilon is not None:
        print(plan(options, options.target_epsilon))
        return
    from tff_keyboard.privacy.ledger import ledger
    from tff_keyboard.storage import names

    paths = [run_dir / names.LEDGER for run_dir in options.run_dirs]
    for path in paths:
        ledger.read_ledger(path)  # before the accounting is imported, which takes two seconds
    ledger.refuse_shared_noise(paths)
    from tff_keyboard.privacy.claims import composed_statement, statement

    texts = [statement.privacy_statement(path) for path in paths]
    if len(texts) > 1:
        texts = [f"{path}\n\n{text}" for path, text in zip(options.run_dirs, texts, strict=True)]
        runs = dict.fromkeys(options.run_dirs)
        together = composed_statement.composed_statement(
            {str(path): composed_statement.LedgerAndPeople.of_run(path) for path in runs}
        )
        texts += [together] if together else []
    print("\n\n".join(texts))


def plan(options: Options, target_epsilon: float) -> str:
    """The tables of a plan; draws the plot where one is asked for."""
    from tff_keyboard.privacy.claims import planning

    config = config_lib.load(options.config, options.set)
    assert options.population is not None
    privacy = config.aggregation.privacy
    claims = privacy if isinstance(privacy, MechanismConfig) else Gaussian()
    schedule = planning.Schedule(
        rounds=config.train.rounds,
        cohort=config.train.clients_per_round,
        population=options.population,
        min_separation=config.train.min_separation_rounds,
        max_participations=claims.max_participations,
        delta=claims.delta,
    )

    def planned(name: str, one: planning.Schedule, epsilon: float) -> planning.Plan:
        return planning.plan(
            name,
            one,
            target_epsilon=epsilon,
            buffers=privacy.buffers if isinstance(privacy, Blt) else Blt().buffers,
            bands=privacy.bands if isinstance(privacy, Banded) else Banded().bands,
            momentum=getattr(config.server, "momentum", 0.0),
        )

    compared = [planned(name, schedule, target_epsilon) for name in planning.COMPARED]
    best = min(compared, key=lambda found: found.error).mechanism
    parts = [
        f"Least noise for epsilon <= {target_epsilon:g} at delta {schedule.delta:g}, a population "
        f"of {schedule.population}; gaussian: as long as nobody learns who was drawn. multiplier: "
        "`noise_multiplier`; error: noise left in a coordinate of the sum of all rounds, root mean "
        "square over the rounds, in clip norms.",
        planning.plans_table(compared),
    ]
    for varied, schedules in planning.schedules_around(schedule).items():
        plans = [planned(best, one, target_epsilon) for one in schedules]
        parts.append(f"{best}, other {varied}:\n{planning.plans_table(plans)}")
    if options.plot:
        from tff_keyboard.report.charts import error_against_epsilon
        from tff_keyboard.storage.files import write_atomically

        epsilons = [target_epsilon * factor for factor in (0.25, 0.5, 1, 2, 4)]
        curves = {
            name: [(e, planned(name, schedule, e).error) for e in epsilons]
            for name in planning.COMPARED
        }
        write_atomically(options.plot, [error_against_epsilon(curves).encode()])
        parts.append(f"Plot: {options.plot}")
    return "\n\n".join(parts)
