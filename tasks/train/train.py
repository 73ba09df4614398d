"""Trains a next-word model federatedly, from a client store to a run directory.

tff-keyboard train --store=data/mine --workdir=runs/mine             what `advise` says of the store
tff-keyboard train --config=configs/demo.toml --workdir=runs/demo    what a config says

Killed at any moment and started again with the same command, it goes on from the last checkpoint
and ends with the same weights and metrics, to the bit. Without --config a run goes on with the
config that it recorded, whatever would be advised by now.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import ConfigOptions, UsageError, Workdir
from tff_keyboard import config as config_lib
from tff_keyboard.config.resolved_execution import with_other_bits
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import machine_speed, quiet
from tff_keyboard.study.advice.advice import advise
from tff_keyboard.study.advice.advice_text import sentence
from tff_keyboard.training import preflight


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """What the task can be told."""

    workdir: Workdir
    config: Annotated[
        pathlib.Path | None, "TOML file of the run; what `advise` says of --store if left out."
    ] = None
    allow_other_bits: Annotated[
        bool, "On a cluster: take nodes whose processor or code gives other last bits."
    ] = False


def run(options: Options) -> None:
    """Trains; called again, it resumes."""
    config = options.run_config() if options.config else _without_config(options)
    if options.allow_other_bits:
        config = with_other_bits(config)
    preflight.check_population(config)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.federated import train_federated

    train_federated(config, options.workdir)


def _without_config(options: Options) -> config_lib.RunConfig:
    """The config that the run began with, or the one that is advised for --store."""
    config = preflight.recorded(options.workdir, options.store, options.set)
    if config is not None:
        print(f"{options.workdir}: goes on with the config that it began with.", flush=True)
        return config
    if options.store is None:
        raise UsageError(
            "Give --store=FOLDER, to train what `tff-keyboard advise FOLDER` says, or "
            "--config=FILE.toml."
        )
    found = advise(read_card(options.store), str(options.store), options.set)
    print(f"No --config, so as advised. {sentence(found, machine_speed.measured())}", flush=True)
    return found.config
