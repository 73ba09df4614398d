"""Central training of a run, on the pooled text of all train clients: the twin to beat.

A round is `train.clients_per_round` x `client.max_examples` messages. [central] has the optimizer;
[server], [aggregation] and `client.epochs` are not used, nor is [fine_tuning] but for the general
store that validation reads.
"""

import dataclasses
import pathlib
from typing import Any

from tff_keyboard.algorithms import build_process
from tff_keyboard.algorithms.central_training import CentralTraining, PooledInputs
from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.learning_config import CentralSgd, FedAvgClient
from tff_keyboard.config.resolved_execution import as_begun
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.learning import optimizers, schedules, validation
from tff_keyboard.models import NextWordModel
from tff_keyboard.program.round_process import RoundProcess
from tff_keyboard.program.scheduled_process import ScheduledProcess
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.train_run import (
    check_best_metric,
    open_run,
    recorded_config,
    train_run,
)


def train_central(
    config: RunConfig,
    workdir: pathlib.Path,
    *,
    tokens: float | None = None,
    epochs: float | None = None,
) -> dict[str, Any]:
    """Trains in `workdir`; called again, it resumes.

    Args:
      config: `train.rounds` counts only where neither of the next two is given.
      workdir: The run directory.
      tokens: Budget in tokens, rounded up to whole rounds.
      epochs: Budget in passes over the pooled text, likewise.

    Returns:
      The last row of metrics, as in `metrics.jsonl`.

    Raises:
      ConfigError, DataError, SavedModelError: The config, the store or `model.initial_model` does
        not fit.
      ProgramError, TrainingInterrupted: As `train_run`.
    """
    client = config.client
    if not isinstance(client, FedAvgClient):
        raise ConfigError(
            "`client.algorithm` = 'fedsgd' has no optimizer for train-server. Use 'fedavg'."
        )
    config = as_begun(config, recorded_config(workdir))
    check_best_metric(config, validation.metric_names(config))
    store = ClientStore(config.data.store)
    general_store = validation.open_general_store(config, store)
    try:
        pooled = PooledInputs(config, store)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if epochs is not None:
        tokens = epochs * pooled.tokens_per_epoch
    if tokens is not None:
        rounds = pooled.rounds_for(tokens)
        config = dataclasses.replace(config, train=dataclasses.replace(config.train, rounds=rounds))
        print(f"{tokens:,.0f} tokens: {rounds:,} rounds of {pooled.messages_per_round:,} messages.")
    model = build_process.build_initial_model(config, store.vocabulary)
    with open_run(config, workdir, store, general_store) as run:
        return train_run(
            *(config, run, store, model),
            process=_process(config, client, model),
            round_input=pooled.round_input,
            evaluate=validation.Validation(
                config, store, general_store, validation.in_this_process(config)
            ),
        )


def _process(config: RunConfig, client: FedAvgClient, model: NextWordModel) -> RoundProcess:
    """Central training with the optimizer and the schedule of [central]."""
    optimizer = optimizers.build_central_optimizer(config.central, client)
    process = CentralTraining(model, optimizer)
    table = client if isinstance(config.central, CentralSgd) else config.central
    if schedules.is_constant(table.schedule):
        return process
    return ScheduledProcess(
        process,
        lambda t: {"optimizer": table.learning_rate * schedules.factor(table.schedule, t)},
    )


def tokens_trained(run_path: pathlib.Path) -> int:
    """Tokens a run has trained on, from its metrics.

    Raises:
      RunDirectoryError, ProgramError: It is no run directory, or has no metrics yet.
    """
    rows = RunDirectory.open(run_path).all_rows()
    return sum(int(row["tokens"]) for row in rows)
