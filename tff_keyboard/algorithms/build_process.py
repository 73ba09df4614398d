"""From a config to the learning process it describes: every name is looked up here."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation import weight_limits
from tff_keyboard.aggregation.host_noise import NoisedProcess, NoiseOfRound
from tff_keyboard.algorithms import fed_avg, fed_sgd
from tff_keyboard.algorithms.build_aggregator import build_aggregator
from tff_keyboard.algorithms.fedmed import process as fedmed_process
from tff_keyboard.algorithms.fedmed.client_weight import limit_fedmed_weight
from tff_keyboard.algorithms.fine_tuning import lwf, server_transfer
from tff_keyboard.config import RunConfig
from tff_keyboard.config.fine_tuning_config import LearningWithoutForgetting, Transfer
from tff_keyboard.config.learning_config import FedAvgClient
from tff_keyboard.config.privacy_config import MechanismConfig
from tff_keyboard.config.rule_config import FedMed
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.learning import optimizers, variable_model
from tff_keyboard.learning.composition import ClientWork, ModelFn
from tff_keyboard.learning.initial_state import with_initial_weights
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.initial_weights import assign_initial_weights
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.program.round_process import RoundProcess

BuildNoise: TypeAlias = Callable[[int], NoiseOfRound]
WrapClientWork: TypeAlias = Callable[[ClientWork], ClientWork]
Process: TypeAlias = tff.learning.templates.LearningProcess
Factory: TypeAlias = tff.aggregators.WeightedAggregationFactory

UNLIMITED = (
    "`client.max_examples` = 0 lets clients train on all they have, so nothing public bounds their "
    "weight: a client that claims a huge one decides the mean alone. Set it above 0, or "
    "`aggregation.client_weighting` to 'uniform'."
)


def build_initial_model(config: RunConfig, vocabulary: Vocabulary) -> NextWordModel:
    """The model training starts from: drawn by `train.seed`, or `model.initial_model`.

    Raises:
      SavedModelError: `model.initial_model` is no model or does not fit.
    """
    model = build_model(
        config.model.name,
        vocabulary_size=len(vocabulary),
        seed=config.train.seed,
        **config.model.options(),
    )
    if config.model.initial_model:
        assign_initial_weights(model, config.model.initial_model, vocabulary)
    return model


def build_model_fn(config: RunConfig, vocabulary_size: int, *, evaluation: bool) -> ModelFn:
    """The TFF model of a run, reporting the sums of training or of evaluation.

    Its initial weights are zeros: clients and evaluations are always given weights.
    """
    return variable_model.build_model_fn(
        config.model.name,
        vocabulary_size=vocabulary_size,
        seed=None,
        options=config.model.options(),
        weight_unit=_weight_unit(config),
        evaluation=evaluation,
    )


def build_training_model_fn(config: RunConfig, vocabulary_size: int) -> ModelFn:
    """The TFF model that clients train, with the loss of `[fine_tuning.method]`."""
    method = config.fine_tuning.method
    if not isinstance(method, LearningWithoutForgetting):
        return build_model_fn(config, vocabulary_size, evaluation=False)
    return lwf.build_lwf_model_fn(
        config.model.name,
        vocabulary_size=vocabulary_size,
        options=config.model.options(),
        true_label_weight=method.true_label_weight,
        weight_unit=_weight_unit(config),
    )


def _weight_unit(config: RunConfig) -> str:
    return "examples" if config.aggregation.client_weighting == "examples" else "tokens"


def build_weight_limit(config: RunConfig, vocabulary_size: int) -> weight_limits.WeightLimit:
    """What the server lets a client weigh at most: public bounds, whatever the client claims.

    Warns where the config has none, because `client.max_examples` = 0.
    """
    limit: weight_limits.WeightLimit
    bound = weight_limits.public_weight_bound(config)
    if config.aggregation.client_weighting == "uniform":
        limit = weight_limits.zero_or_one
    elif bound is not None:
        limit = weight_limits.at_most(bound)
    else:
        limit = tf.identity
        warnings.warn(UNLIMITED, stacklevel=2)
    if isinstance(config.aggregation.rule, FedMed):
        return limit_fedmed_weight(limit, vocabulary_size)
    return limit


def _fedavg(
    config: RunConfig,
    model_fn: ModelFn,
    aggregator: Factory,
    names: Sequence[str],
    wrap: WrapClientWork | None,
    joined: bool,
) -> Process:
    assert isinstance(config.client, FedAvgClient)
    client_optimizer = optimizers.build_client_optimizer(config.client)
    server_optimizer = optimizers.build_server_optimizer(config.server)
    uniform = config.aggregation.client_weighting == "uniform"
    rule = config.aggregation.rule
    if isinstance(rule, FedMed):
        return fedmed_process.build_fedmed_process(
            model_fn,
            client_optimizer=client_optimizer,
            server_optimizer=server_optimizer,
            aggregator=aggregator,
            rule=rule,
            uniform_weights=uniform,
            variable_names=names,
            wrap_client_work=wrap,
            joined=joined,
        )
    return fed_avg.build_fed_avg(
        model_fn,
        client_optimizer=client_optimizer,
        server_optimizer=server_optimizer,
        aggregator=aggregator,
        uniform_weights=uniform,
        wrap_client_work=wrap,
        joined=joined,
    )


def _fedsgd(
    config: RunConfig,
    model_fn: ModelFn,
    aggregator: Factory,
    names: Sequence[str],
    wrap: WrapClientWork | None,
    joined: bool,
) -> Process:
    del names, joined
    if wrap is not None:
        raise ValueError("`client.algorithm` = 'fedsgd' has no client work to wrap. Use 'fedavg'.")
    return fed_sgd.build_fed_sgd(
        model_fn,
        server_optimizer=optimizers.build_server_optimizer(config.server),
        aggregator=aggregator,
    )


ALGORITHMS: Mapping[str, Callable[..., Process]] = {"fedavg": _fedavg, "fedsgd": _fedsgd}


def build_process(
    config: RunConfig,
    initial_model: NextWordModel,
    *,
    wrap_client_work: WrapClientWork | None = None,
    general_store: ClientStore | None = None,
    build_noise: BuildNoise | None = None,
    joined: bool = False,
) -> RoundProcess:
    """The learning process of `client.algorithm` with the aggregator of `aggregation.rule.name`.

    With `fine_tuning.server.name` = "transfer" it is a `server_transfer.ServerTransferProcess`.

    Args:
      config: Of the run.
      initial_model: Whose weights training starts from.
      wrap_client_work: Changes what clients do; the attack harness does.
      general_store: Of `fine_tuning.general_store`; the server's transfer learning on general text
        needs it.
      build_noise: `privacy.run_privacy.RunPrivacy.build_noise`; a private run with noise needs it.
      joined: Whether clients may hold their batches joined (`packs/elements.py`), which is faster.
        What has no such form (FedSGD, the server's transfer learning, wrapped work) has them one
        by one all the same; the type of `next` tells.

    Raises:
      ValueError: Options that do not go together, or a private run has no noise.
    """
    if isinstance(config.fine_tuning.server, Transfer):
        return _server_transfer(config, initial_model, wrap_client_work, general_store)
    weights = weights_by_name(initial_model)
    aggregator = build_aggregator(
        config.aggregation,
        clients_per_round=config.train.clients_per_round,
        seed=config.train.seed,
        variable_names=list(weights),
        limit=build_weight_limit(config, initial_model.vocabulary_size),
    )
    model_fn = build_training_model_fn(config, initial_model.vocabulary_size)
    process = ALGORITHMS[config.client.algorithm](
        *(config, model_fn, aggregator, list(weights), wrap_client_work),
        joined and wrap_client_work is None,
    )
    process = with_initial_weights(process, list(weights.values()))
    privacy = config.aggregation.privacy
    if not isinstance(privacy, MechanismConfig) or not privacy.noise_multiplier:
        return process
    if build_noise is None:
        raise ValueError(
            "A run with privacy noise needs `build_noise`, the noise of its key: see "
            "`privacy.run_privacy.open_run_privacy`."
        )
    return NoisedProcess(process, build_noise)


def _server_transfer(
    config: RunConfig,
    initial_model: NextWordModel,
    wrap: WrapClientWork | None,
    general_store: ClientStore | None,
) -> RoundProcess:
    weights = weights_by_name(initial_model)
    one_client = server_transfer.one_client_config(config)
    model_fn = build_training_model_fn(one_client, initial_model.vocabulary_size)
    # Of one client, NaN where its weight is 0: so a useless model is told from a useful one.
    mean = tff.aggregators.MeanFactory()
    process = _fedavg(one_client, model_fn, mean, list(weights), wrap, joined=False)
    return server_transfer.build_server_transfer(
        with_initial_weights(process, list(weights.values())), config, initial_model, general_store
    )
