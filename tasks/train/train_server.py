"""Trains the same model centrally, on the pooled text of all train clients, for comparison.

tff-keyboard train-server --like=runs/sms --workdir=runs/sms_server
tff-keyboard train-server --config=configs/wikitext2.toml --epochs=10 --workdir=runs/general

--like takes the config of a federated run and its token budget: the tokens that this run has
trained on, plus the tokens of the runs on the same store that its initial model comes from.
Training starts from the initial model of the first of these runs.

The result is a run directory, as from `train`: evaluate, compare, report and export accept it,
and `model.initial_model` of a later run can name it. Section [central] selects the optimizer: SGD
with the learning rate, momentum and schedule of [client], or Adam with a rate and a schedule of its
own. Batch size and gradient clipping come from [client]. One round is `train.clients_per_round` x
`client.max_examples` messages.

Central training ignores [server], [aggregation], `client.epochs`, [fine_tuning.server] and the keys
of [train] that select or drop clients. With [fine_tuning.method], rehearsal adds general messages
to each round, and lwf uses the initial model as its teacher.

--set=execution.engine=ray trains on a node of a cluster (docs/cluster.md). To resume, run the same
command again: it continues from the last checkpoint, to the bit.
"""

import dataclasses
import pathlib
from typing import Annotated

from absl import flags

from tff_keyboard.command_line.options import ConfigOptions, Workdir
from tff_keyboard.host import quiet
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """Flags of `train-server`."""

    resumes = True

    workdir: Workdir
    like: Annotated[pathlib.Path | None, "Run directory. Use its config and token budget."] = None
    epochs: Annotated[float | None, "Budget in passes over the text.", flags.FloatParser(0)] = None

    def __post_init__(self) -> None:
        if self.like is None and self.config is None:
            raise UsageError("Pass --like=RUN_DIR or --config=FILE. See --help.")


def run(options: Options) -> None:
    """Trains, or resumes a training."""
    of_run = options.like / names.CONFIG if options.like and not options.config else None
    config = options.run_config(of_run)
    quiet.import_tensorflow_federated()
    from tff_keyboard.training import central

    tokens = None
    if options.like is not None:
        budget = central.budget_of(options.like)
        config = budget.at_the_beginning(config)
        if options.epochs is None:
            tokens = budget.tokens
    central.train_central(config, options.workdir, tokens=tokens, epochs=options.epochs)
