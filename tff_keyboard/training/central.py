"""Central training of a run, on the pooled text of all train clients: the twin to beat.

A round is `train.clients_per_round` x `client.max_examples` messages; [server], [aggregation],
[fine_tuning] and `client.epochs` are not used.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from tff_keyboard.algorithms import build_process
from tff_keyboard.algorithms.central_training import CentralTraining, PooledInputs
from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.learning_config import FedAvgClient
from tff_keyboard.config.resolved_execution import packs_as_begun
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import evaluation_sums
from tff_keyboard.evaluation.evaluate_model import Evaluator
from tff_keyboard.learning import optimizers
from tff_keyboard.learning.client_inputs import evaluation_clients
from tff_keyboard.models import build_model
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.train_run import (
    check_best_metric,
    open_run,
    recorded_config,
    train_run,
)

EVALUATION_BATCH = 256  # messages; sums do not depend on it


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
    config = packs_as_begun(config, recorded_config(workdir))
    check_best_metric(config, [*evaluation_sums.RATIOS, *evaluation_sums.PERPLEXITIES])
    store = ClientStore(config.data.store)
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
    with open_run(config, workdir, store) as run:
        return train_run(
            *(config, run, store, model),
            process=CentralTraining(model, optimizers.build_client_optimizer(client)),
            round_input=pooled.round_input,
            evaluate=_validation(config, store),
        )


def tokens_trained(run_path: pathlib.Path) -> int:
    """Tokens a run has trained on, from its metrics.

    Raises:
      RunDirectoryError, ProgramError: It is no run directory, or has no metrics yet.
    """
    rows = RunDirectory.open(run_path).rows()
    return sum(int(row["tokens"]) for row in rows)


def _validation(config: RunConfig, store: ClientStore) -> Callable[[int, Any], dict[str, float]]:
    """`(round, weights) -> metrics` on the validation clients, in this process."""
    model = build_model(
        config.model.name,
        vocabulary_size=len(store.vocabulary),
        seed=config.train.seed,
        **config.model.options(),
    )
    evaluator = Evaluator(model.score)
    clients = [
        batches.evaluation_batches(
            store.examples("validation", client_id),
            batch_size=EVALUATION_BATCH,
            max_length=config.data.max_length,
            max_examples=config.evaluation.max_examples,
        )
        for client_id in evaluation_clients(store, "validation", config.evaluation)
    ]

    def evaluate(round_num: int, weights: Any) -> dict[str, float]:
        del round_num
        weights.assign_weights_to(model)
        return evaluation_sums.finalize(evaluator.sums_per_client(clients))

    return evaluate
