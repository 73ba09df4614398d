"""Central training of a run, on the pooled text of all train clients, as a baseline.

A round is `train.clients_per_round` x `client.max_examples` messages. [central] has the optimizer.
[server], [aggregation], `client.epochs` and [fine_tuning.server] are not used.
"""

import dataclasses
import pathlib

from tff_keyboard.algorithms.central_training import CentralTraining, PooledInputs
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient
from tff_keyboard.algorithms.rounds.round_process import RoundProcess, chain
from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.sections.fine_tuning_config import LearningWithoutForgetting
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models import NextWordModel
from tff_keyboard.privacy.ledger import lineage
from tff_keyboard.privacy.registry.none import NoPrivacy
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import build, process_transforms
from tff_keyboard.training.open_training import open_central_training
from tff_keyboard.training.train_run import check_is_not_private


def train_central(
    config: RunConfig,
    workdir: pathlib.Path,
    *,
    tokens: float | None = None,
    epochs: float | None = None,
) -> Row:
    """Trains in `workdir`, or resumes the training there, always on this machine.

    Args:
      config: Config of the run. `train.rounds` counts only without a budget. `execution.engine` is
        ignored.
      workdir: The run directory.
      tokens: Budget in tokens, rounded up to whole rounds.
      epochs: Budget in passes over the pooled text, rounded up to whole rounds.

    Returns:
      The last row of metrics.

    Raises:
      ConfigError: The config does not fit.
      DataError: The store does not fit.
      SavedModelError: The initial model does not fit.
    """
    secret = config.aggregation.privacy
    run = RunDirectory(workdir)
    check_is_not_private(run)
    if config.aggregation.is_private and not run.declares_privacy:
        print(
            "Central training has no noise, so the run ignores [aggregation.privacy] and records "
            "that it is not private."
        )
        aggregation = dataclasses.replace(config.aggregation, privacy=NoPrivacy())
        config = dataclasses.replace(config, aggregation=aggregation)

    def pooled_of(store: ClientStore, general_store: ClientStore | None) -> PooledInputs:
        return build_pooled(config, store, build.build_rehearsal(config, general_store))

    def rounds(store: ClientStore, general_store: ClientStore | None) -> int:
        pooled = pooled_of(store, general_store)
        budget = tokens if epochs is None else epochs * pooled.tokens_per_epoch
        if budget is None:
            return config.train.rounds
        num_rounds = pooled.rounds_for(budget)
        size = pooled.messages_per_round
        print(f"{budget:,.0f} tokens: {num_rounds:,} rounds of {size:,} messages.")
        return num_rounds

    with open_central_training(config, workdir, secret=secret, rounds=rounds) as training:
        config, model = training.config, training.model
        process = build_central_process(config, model)
        return training.train(
            process=chain(process, process_transforms.central_transforms(config)),
            round_input=pooled_of(training.store, training.general_store).round_input,
            evaluate=build.build_validation(config, training.store, training.general_store),
        )


def build_central_process(config: RunConfig, model: NextWordModel) -> RoundProcess:
    """Builds central training with the optimizer of [central] and [fine_tuning.method].

    The current weights of the model are the initial ones, also of a teacher. Training changes the
    instance.

    Raises:
      ConfigError: The clients have no optimizer, or a teacher has no trained weights.
    """
    client = config.client
    if not isinstance(client, FedAvgClient):
        raise ConfigError(
            f"`client.type` = {client.type!r} cannot be used with train-server, which takes the "
            "optimizer from 'fedavg'."
        )
    optimizer = optimizers.build_central_optimizer(config.central, client)
    method = config.fine_tuning.method
    if isinstance(method, LearningWithoutForgetting):
        if not config.model.initial_model:
            raise ConfigError(
                "`fine_tuning.method.type` = 'lwf' requires `model.initial_model` for "
                "train-server: it is the teacher. Set it to a trained model, or use another "
                "method."
            )
        teacher = build.build_model_of(config, model.vocabulary_size, seed=None)
        teacher.set_weights(model.get_weights())
        return CentralTraining(model, optimizer, teacher, method.true_label_weight)
    return CentralTraining(model, optimizer)


def build_pooled(
    config: RunConfig, store: ClientStore, rehearsal: Rehearsal | None = None
) -> PooledInputs:
    """Builds the batches of central training.

    Raises:
      ConfigError: There are no messages, or a round has no limit on messages.
    """
    if not config.client.max_examples:
        raise ConfigError(
            "`client.max_examples` must be > 0 to train centrally: one round is "
            "`train.clients_per_round` x `client.max_examples` messages."
        )
    try:
        return PooledInputs(
            store,
            messages_per_round=config.train.clients_per_round * config.client.max_examples,
            batch_size=config.client.batch_size,
            max_length=config.data.max_length,
            long_messages=config.data.long_messages,
            seed=config.train.seed,
            rehearsal=rehearsal,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None


@dataclasses.dataclass(frozen=True)
class Budget:
    """Text that a federated model was trained on."""

    tokens: int
    # consecutive runs on the same client store, last one first
    parts: tuple[pathlib.Path, ...]
    initial_model: str  # initial model of the first part; empty for random weights

    def at_the_beginning(self, config: RunConfig) -> RunConfig:
        """Returns the config with the first part's initial model, unless it has its own."""
        initial_model = config.model.initial_model
        run = lineage.run_of(pathlib.Path(initial_model)) if initial_model else None
        if run is None or run.path.resolve() not in self.parts:
            return config
        model = dataclasses.replace(config.model, initial_model=self.initial_model)
        return dataclasses.replace(config, model=model)


def budget_of(run_path: pathlib.Path) -> Budget:
    """Returns the budget of a run and of the runs before it on the same client store.

    Earlier runs are found through the initial model.

    Raises:
      RunDirectoryError: `run_path` is not a run directory.
      ProgramError: The run has no metrics yet.
    """
    first = RunDirectory.open(run_path)
    store = first.data_card().get("store_sha256")
    run: RunDirectory | None = first
    parts: dict[pathlib.Path, int] = {}
    initial_model = ""
    while (
        run is not None
        and run.path.resolve() not in parts
        and run.data_card().get("store_sha256") == store
    ):
        parts[run.path.resolve()] = sum(int(row["tokens"]) for row in run.all_rows())
        initial_model = lineage.initial_model_of(run)
        run = lineage.run_of(pathlib.Path(initial_model)) if initial_model else None
    return Budget(sum(parts.values()), tuple(parts), initial_model)
