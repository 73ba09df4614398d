"""Trains a next-word model with federated learning, from a client store to a run directory.

tff-keyboard train --store=data/mine --workdir=runs/mine             with the config from `advise`
tff-keyboard train --config=configs/demo.toml --workdir=runs/demo    with a config of your own

To resume a training that was stopped or killed, run the same command again. It continues from the
last checkpoint and ends with the same weights and metrics, to the bit. A resumed run keeps its
config, even if `advise` would now recommend a different one.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Annotated

from ..options import ConfigOptions, Workdir
from tff_keyboard.config import RunConfig, load_of_run
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

    config: Annotated[
        pathlib.Path | None, "TOML config file. Default: the config that `advise` recommends."
    ] = None
    workdir: Workdir


def run(options: Options) -> None:
    """Trains, or resumes a training."""
    given = (options.workdir, options.store, options.set)
    config = options.run_config() if options.config else load_or_recommend(*given)
    preflight.check_population(config.data.store, config.train, config.aggregation.rule)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.federated import train_federated

    train_federated(config, options.workdir)


def load_or_recommend(
    workdir: pathlib.Path, store: pathlib.Path | None, overrides: Sequence[str] = ()
) -> RunConfig:
    """Returns the config, and prints a line with its origin.

    Advice may change with versions and with the store, so a run that has begun keeps its record.

    Args:
      workdir: The run directory.
      store: The client store; None is possible for a begun run.
      overrides: Config overrides.

    Raises:
      RunDirectoryError: The run began with another store.
    """
    run = RunDirectory(workdir)
    if run.exists():
        config = load_of_run(run.config_path, overrides)
        begun = pathlib.Path(config.data.store)
        if store is not None and store.resolve() != begun.resolve():
            raise RunDirectoryError(
                f"{run.config_path}: this run started with `data.store` = {begun}, not with "
                f"{store}. Pass another --workdir, or the --store of this run."
            )
        print(f"{workdir}: resumes with the config of its first start.", flush=True)
        return config
    if store is None:
        raise UsageError(
            "Pass --store=FOLDER to train as `tff-keyboard advise FOLDER` recommends, or "
            "--config=FILE.toml."
        )
    found = advise(read_card(store), str(store), overrides)
    reason = sentence(found, machine_speed.measured())
    print(f"No --config, so the run follows `tff-keyboard advise`. {reason}", flush=True)
    return found.config
