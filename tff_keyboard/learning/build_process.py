"""From a config to the learning process it describes: every name is looked up here."""

from collections.abc import Callable, Mapping

import tensorflow_federated as tff

from tff_keyboard.config import RunConfig
from tff_keyboard.learning import algorithms, optimizers, variable_model


def model_fns(config: RunConfig, vocabulary_size: int) -> tuple[Callable, Callable]:
    """`(train_model_fn, evaluation_model_fn)`: the same model, reporting different sums."""
    unit = "examples" if config.aggregation.client_weighting == "examples" else "tokens"

    def build(evaluation: bool) -> Callable:
        return variable_model.build_model_fn(
            config.model.name,
            vocabulary_size=vocabulary_size,
            seed=config.train.seed,
            options=config.model.options(),
            weight_unit=unit,
            evaluation=evaluation,
        )

    return build(False), build(True)


def _fedavg(config: RunConfig, model_fn: Callable, aggregator: algorithms.Aggregator):
    return algorithms.build_fed_avg(
        model_fn,
        client_optimizer=optimizers.build_client_optimizer(config.client),
        server_optimizer=optimizers.build_server_optimizer(config.server),
        aggregator=aggregator,
        uniform_weights=config.aggregation.client_weighting == "uniform",
    )


def _fedsgd(config: RunConfig, model_fn: Callable, aggregator: algorithms.Aggregator):
    return algorithms.build_fed_sgd(
        model_fn,
        server_optimizer=optimizers.build_server_optimizer(config.server),
        aggregator=aggregator,
    )


ALGORITHMS: Mapping[str, Callable] = {"fedavg": _fedavg, "fedsgd": _fedsgd}


def build_process(config: RunConfig, model_fn: Callable) -> tff.learning.templates.LearningProcess:
    """The learning process of `train.algorithm` with the aggregator of `aggregation.name`."""
    aggregator = tff.aggregators.MeanFactory()
    return ALGORITHMS[config.train.algorithm](config, model_fn, aggregator)
