"""Measures what an aggregation rule withstands: the same training, clean and under attack.

tff-keyboard attack --config=configs/features/equal_clients.toml --workdir=runs/attack --unprotected

A seeded share of the clients attacks, each drawn by itself: alone (`attacks/attackers.py`), or
knowing all honest deltas of the round (`attacks/collusion.py`); docs/attacks.md lists the attacks.
For a backdoor the task also says how often the word it was made for follows its trigger.
Cohorts, data and seeds are those of the clean run. Give --config several times to compare rules.
The task prints top-1 recall and perplexity on validation and held-out people and the paired
difference to the clean run of the same rule, and writes them to WORKDIR/attacks.json. Each training
is a run directory: after an interruption, run the same command again. A model that has learnt
nothing yet has nothing to lose: train for long enough, or start from a trained one with
--set=model.initial_model=RUN.

Trainings keep their last model and never end early: choosing the best one on validation would hide
an attack that came later, and so would stopping at it.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import Range, TaskOptions
from tff_keyboard import config as config_lib
from tff_keyboard.attacks.attack_names import ATTACK_NAMES, AttackName
from tff_keyboard.host import quiet
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.training import preflight


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    config: Annotated[tuple[pathlib.Path, ...], "TOML file of a run; repeated, one a rule."] = ()
    workdir: Annotated[pathlib.Path, "Folder of the runs; existing ones are resumed."]
    attacks: Annotated[tuple[AttackName, ...], f"Of {', '.join(ATTACK_NAMES)}."] = ATTACK_NAMES
    share: Annotated[float, "Share of clients that attack.", Range(0, 1)] = 0.1
    unprotected: Annotated[
        bool, "Also run each rule without zeroing and clipping. NaN is refused all the same."
    ] = False
    set: Annotated[
        tuple[str, ...], "Override `section.key=value` of every config; may be repeated."
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.config:
            raise UsageError("Give --config=FILE.toml at least once.")
        if len({path.stem for path in self.config}) < len(self.config):
            raise UsageError("Two --config files have one name, and so would their runs.")


def run(options: Options) -> None:
    """Trains and evaluates whatever is not done yet, and prints the comparison."""
    configs = {path.stem: config_lib.load(path, options.set) for path in options.config}
    for config in configs.values():
        preflight.check_population(config)
    quiet.import_tensorflow_federated()
    from tff_keyboard.attacks import attack_report, attack_study

    rows = attack_study.study_attacks(
        configs,
        options.workdir,
        attacks=options.attacks,
        share=options.share,
        unprotected=options.unprotected,
    )
    print(attack_report.table(rows))
    print(f"\nAll figures: {options.workdir / names.ATTACKS}")
