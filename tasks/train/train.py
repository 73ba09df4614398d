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

from ..options import ConfigOptions, Workdir
from tff_keyboard.host import quiet
from tff_keyboard.training import preflight
from tff_keyboard.training.advice.advised_run import load_or_recommend


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
    preflight.check_population(config)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.federated import train_federated

    train_federated(config, options.workdir)
