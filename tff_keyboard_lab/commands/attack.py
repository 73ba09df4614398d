"""Measures how well aggregators resist attacks: trains the same config with and without attackers.

tff-keyboard attack --config=configs/features/equal_clients.toml --workdir=runs/attack \\
    --unprotected

A seeded share of the clients attacks. Each attacker is drawn independently, and acts alone
(`tff_keyboard_lab/attacks/attackers.py`) or knows all honest updates of the round
(`tff_keyboard_lab/attacks/collusion.py`). The latter need --allow-tff-server.
docs/attacks.md describes the attacks. All runs use the same cohorts, data and seeds. Pass --config
several times to compare aggregators.

Prints top-1 recall and perplexity on validation and held-out clients, and the paired difference to
the run without attackers. For a backdoor it also prints how often the target word follows the
trigger. Writes all figures to WORKDIR/attacks.json. Each training is a run directory; after an
interruption, run the same command again.

A model that has not learned anything yet cannot get worse: train long enough, or start from a
trained model with --set=model.initial_model=RUN. Every training keeps its last model and does not
stop early, because choosing the best round on validation data would hide a later attack.
"""

import dataclasses
import pathlib
from typing import Annotated

from absl import flags

from tff_keyboard import config as config_lib
from tff_keyboard.command_line.options import TaskOptions
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.training import preflight
from tff_keyboard_lab import file_names
from tff_keyboard_lab.attacks.attack_names import (
    ATTACK_NAMES,
    COLLUDING,
    AttackName,
    check_server_is_allowed,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `attack`."""

    resumes = True

    config: Annotated[
        tuple[pathlib.Path, ...], "TOML file of a run. Repeatable: one for each aggregator."
    ] = ()
    workdir: Annotated[pathlib.Path, "Folder of the runs. Existing ones are resumed."]
    attacks: Annotated[
        tuple[AttackName, ...],
        f"Attacks: {', '.join(ATTACK_NAMES)}. Default: all that need no --allow-tff-server, or all "
        "with it.",
    ] = ()
    share: Annotated[float, "Share of clients that attack.", flags.FloatParser(0, 1)] = 0.1
    unprotected: Annotated[
        bool, "Also run each aggregator without zeroing and clipping. NaN is still rejected."
    ] = False
    allow_tff_server: Annotated[
        bool,
        "Start TFF's own server, which colluding attacks need. It listens on all network "
        "interfaces, without a password, while the command runs.",
    ] = False
    set: Annotated[
        tuple[str, ...], "Override a key of every config: `section.key=value`. Repeatable."
    ] = ()

    def __post_init__(self) -> None:
        if not self.config:
            raise UsageError("Pass --config=FILE.toml at least once.")
        if len({path.stem for path in self.config}) < len(self.config):
            raise UsageError(
                "Two --config files have the same name, so their runs would share a directory."
            )
        check_server_is_allowed(self.attacks, self.allow_tff_server)

    @property
    def selected_attacks(self) -> tuple[AttackName, ...]:
        """The attacks to run."""
        if self.attacks or self.allow_tff_server:
            return self.attacks or ATTACK_NAMES
        return tuple(attack for attack in ATTACK_NAMES if attack not in COLLUDING)


def run(options: Options) -> None:
    """Trains and evaluates the unfinished runs, and prints the comparison."""
    configs = {path.stem: config_lib.load(path, options.set) for path in options.config}
    for config in configs.values():
        preflight.check_population(config.data.store, config.train, config.aggregation.rule)
        preflight.check_defence(config.train, config.aggregation.rule)
    quiet.import_tensorflow_federated()
    from tff_keyboard_lab.attacks import attack_report, attack_study

    rows = attack_study.study_attacks(
        configs,
        options.workdir,
        attacks=options.selected_attacks,
        share=options.share,
        unprotected=options.unprotected,
        allow_tff_server=options.allow_tff_server,
    )
    print(attack_report.table(rows))
    print(f"\nAll figures: {options.workdir / file_names.ATTACKS}")
