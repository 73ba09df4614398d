"""Trains the same model centrally, on the pooled text of all train clients: the twin to beat.

tff-keyboard train-server --like=runs/sms --workdir=runs/sms_server
tff-keyboard train-server --config=configs/wikitext2.toml --epochs=10 --workdir=runs/general

With --like it takes the config of a federated run and its budget: as many tokens as that run has
trained on, and the runs on the same store that its initial model comes from; it begins where the
first of them began. It writes a run directory like `train` does, so evaluate, compare, report and
export take it, and `model.initial_model` of a later run can start from it. Section [central] has
the optimizer: SGD as [client] describes it (learning rate, momentum, schedule), or Adam, Yogi or
Adagrad with a rate and a schedule of their own; batch size and clipping of gradients are those of
[client]. A round is `train.clients_per_round` x `client.max_examples` messages. Not used are
[server], [aggregation], [train.cohort], `client.epochs`, of [train] how people are drawn, drop out
or are left out, and [fine_tuning.server]. [fine_tuning.method] is that of one node: rehearsal adds
general messages to each round, lwf keeps the initial model as its teacher.
With --set=execution.engine=ray it trains on a node of a cluster (docs/cluster.md). Killed and
started again with the same command, it goes on from the last checkpoint, to the bit.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import ConfigOptions, Range, Workdir
from tff_keyboard.host import quiet
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """What the task can be told."""

    workdir: Workdir
    like: Annotated[pathlib.Path | None, "Run directory whose config and token budget to take."] = (
        None
    )
    tokens: Annotated[float | None, "Budget in tokens.", Range(1)] = None
    epochs: Annotated[float | None, "Budget in passes over the text.", Range(0)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens is not None and self.epochs is not None:
            raise UsageError("Give --tokens or --epochs, not both.")
        if self.like is None and self.config is None:
            raise UsageError("Give --like=RUN_DIR or --config=FILE. See --help.")


def run(options: Options) -> None:
    """Trains; called again, it resumes."""
    of_run = options.like / names.CONFIG if options.like and not options.config else None
    config = options.run_config(of_run)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training.central import train_central

    tokens = options.tokens
    if options.like is not None:
        budget = train_central.budget_of(options.like)
        config = budget.at_the_beginning(config)
        if tokens is None and options.epochs is None:
            tokens = budget.tokens
    train_central.train_central(config, options.workdir, tokens=tokens, epochs=options.epochs)
