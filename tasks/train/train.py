"""Trains a next-word model federatedly, from a client store to a run directory.

tff-keyboard train --config=configs/demo.toml --workdir=runs/demo [--set=train.rounds=30]

Killed at any moment and started again with the same command, it goes on from the last checkpoint
and ends with the same weights and metrics, to the bit.
"""

import dataclasses
from typing import Annotated

from ..options import ConfigOptions, Workdir
from tff_keyboard.config.resolved_execution import with_other_bits
from tff_keyboard.host import quiet
from tff_keyboard.training import preflight


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """What the task can be told."""

    workdir: Workdir
    allow_other_bits: Annotated[
        bool, "On a cluster: take nodes whose processor or code gives other last bits."
    ] = False


def run(options: Options) -> None:
    """Trains; called again, it resumes."""
    config = options.run_config()
    if options.allow_other_bits:
        config = with_other_bits(config)
    preflight.check_population(config)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.federated import train_federated

    train_federated(config, options.workdir)
