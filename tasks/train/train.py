"""Trains a next-word model federatedly, from a client store to a run directory.

tff-keyboard train --store=data/mine --workdir=runs/mine             what `advise` says of the store
tff-keyboard train --config=configs/demo.toml --workdir=runs/demo    what a config says

Killed at any moment and started again with the same command, it goes on from the last checkpoint
and ends with the same weights and metrics, to the bit, whatever would be advised by then.
"""

import dataclasses
from typing import Annotated

from ..options import ConfigOptions, Workdir
from tff_keyboard.config.resolved_execution import with_other_bits
from tff_keyboard.host import quiet
from tff_keyboard.study.advice.advised_run import begun_or_advised
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
    given = (options.workdir, options.store, options.set)
    config = options.run_config() if options.config else begun_or_advised(*given)
    if options.allow_other_bits:
        config = with_other_bits(config)
    preflight.check_population(config)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.federated import train_federated

    train_federated(config, options.workdir)
