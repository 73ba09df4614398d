"""The learning process of a user's own client algorithm (`client.type` in a config)."""

import tensorflow_federated as tff

from tff_keyboard.aggregators.processes import Factory
from tff_keyboard.algorithms.composition import ModelFn, compose_process
from tff_keyboard.config.sections.learning_config import OwnClient
from tff_keyboard.parts.aggregator import AggregatorRun


def build_process(
    config: OwnClient,
    model_fn: ModelFn,
    run: AggregatorRun,
    vocabulary_size: int,
    aggregator: Factory,
    server_optimizer: tff.learning.optimizers.Optimizer,
) -> tff.learning.templates.LearningProcess:
    """Builds the learning process, or composes it with the client work that the part returns.

    Args:
      config: The table `[client]`.
      model_fn: Builds the model that clients train.
      run: The values of the run.
      vocabulary_size: Rows of the word table.
      aggregator: The aggregator of the config, with its protection.
      server_optimizer: The server optimizer of the config.

    Raises:
      ConfigError: The part raises an error, or returns an object of another kind.
    """
    values = {
        "model_fn": model_fn,
        "aggregator": aggregator,
        "server_optimizer": server_optimizer,
        "seed": run.seed,
        "clients_per_round": run.clients_per_round,
        "vocabulary_size": vocabulary_size,
        "batch_size": config.batch_size,
        "max_examples": config.max_examples,
        "epochs": config.epochs,
    }
    process = config.call(values)
    if isinstance(process, tff.learning.templates.ClientWorkProcess):
        with config.errors():
            return compose_process(
                model_fn,
                client_work=process,
                server_optimizer=server_optimizer,
                aggregator=aggregator,
            )
    config.must_be(
        isinstance(process, tff.learning.templates.LearningProcess),
        "a `tff.learning.templates.LearningProcess` or `ClientWorkProcess`",
        process,
    )
    return process
