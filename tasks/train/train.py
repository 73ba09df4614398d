"""Trains a next-word model with federated learning, from a client store to a run directory.

tff-keyboard train --store=data/mine --workdir=runs/mine             with the config from `advise`
tff-keyboard train --config=configs/demo.toml --workdir=runs/demo    with a config of your own

To resume a training that was stopped or killed, run the same command again. It continues from the
last checkpoint and ends with the same weights and metrics, to the bit. A resumed run keeps its
config, even if `advise` would now recommend a different one.
"""

import dataclasses
import pathlib
from typing import Annotated

from tff_keyboard.command_line.options import ConfigOptions, Workdir
from tff_keyboard.config import load_of_run
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import machine_speed, quiet
from tff_keyboard.storage.errors import RunDirectoryError, UsageError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import preflight
from tff_keyboard.training.advice.advice import advise
from tff_keyboard.training.advice.advice_text import sentence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """Flags of `train`."""

    resumes = True

    config: Annotated[
        pathlib.Path | None, "TOML config file. Default: the config that `advise` recommends."
    ] = None
    workdir: Workdir


def run(options: Options) -> None:
    """Trains, or resumes a training.

    Raises:
      RunDirectoryError: The run began with another store.
    """
    begun = RunDirectory(options.workdir)
    if options.config is not None:
        config = options.run_config()
    elif begun.exists():
        # Advice may change with versions and with the store, so a begun run keeps its config.
        config = load_of_run(begun.config_path, options.set)
        store = pathlib.Path(config.data.store)
        if options.store is not None and options.store.resolve() != store.resolve():
            raise RunDirectoryError(
                f"{begun.config_path}: this run started with `data.store` = {store}, not with "
                f"{options.store}. Pass another --workdir, or the --store of this run."
            )
        print(f"{options.workdir}: resumes with the config of its first start.", flush=True)
    elif options.store is not None:
        advice = advise(read_card(options.store), str(options.store), options.set)
        reason = sentence(advice, machine_speed.measured())
        print(f"No --config, so the run follows `tff-keyboard advise`. {reason}", flush=True)
        config = advice.config
    else:
        raise UsageError(
            "Pass --store=FOLDER to train as `tff-keyboard advise FOLDER` recommends, or "
            "--config=FILE.toml."
        )
    preflight.check_population(config.data.store, config.train, config.aggregation.rule)
    preflight.check_defence(config.train, config.aggregation.rule)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.federated import train_federated

    train_federated(config, options.workdir)
