"""Builds the learning process of a config. Every name of the config is looked up here."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators import row_correction
from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.aggregators.fedmed.client_weight import limit_fedmed_weight
from tff_keyboard.aggregators.guards.update_guard import WeightLimit, zero_or_one
from tff_keyboard.aggregators.private.host_noise import NoisedProcess, NoiseOfRound
from tff_keyboard.aggregators.processes import Factory
from tff_keyboard.algorithms import fed_avg, fed_sgd, variable_model
from tff_keyboard.algorithms.client_training import TouchedTableRows
from tff_keyboard.algorithms.composition import ClientWork, ModelFn, with_initial_weights
from tff_keyboard.algorithms.fedmed.process import build_fedmed
from tff_keyboard.algorithms.fine_tuning import lwf, server_transfer
from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.algorithms.round_process import RoundProcess
from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.aggregation_config import AggregationConfig, FedSubAvgConfig
from tff_keyboard.config.sections.fine_tuning_config import (
    Averaging,
    LearningWithoutForgetting,
    Transfer,
)
from tff_keyboard.config.sections.learning_config import FedAvgClient, FedAvgServer
from tff_keyboard.config.sections.privacy_config import MechanismConfig
from tff_keyboard.config.sections.rule_config import FedMedConfig, MeanConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.initial_weights import assign_initial_weights
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.training.build_aggregator import build_rule, protect

BuildNoise: TypeAlias = Callable[[int], NoiseOfRound]
WrapClientWork: TypeAlias = Callable[[ClientWork], ClientWork]
Process: TypeAlias = tff.learning.templates.LearningProcess


def build_initial_model(config: RunConfig, vocabulary: Vocabulary) -> NextWordModel:
    """Builds the model before training: drawn by `train.seed`, or read from `model.initial_model`.

    Raises:
      SavedModelError: `model.initial_model` is not a model or does not fit.
    """
    model = build_model(
        config.model.type,
        vocabulary_size=len(vocabulary),
        seed=config.train.seed,
        **config.model.options(),
    )
    if config.model.initial_model:
        found = assign_initial_weights(model, config.model.initial_model, vocabulary)
        print(
            f"{config.model.initial_model}: {found:,} of {len(vocabulary) - NUM_SPECIAL:,} words "
            "start with its rows.",
            flush=True,
        )
    return model


def build_model_fn(config: RunConfig, vocabulary_size: int, *, evaluation: bool) -> ModelFn:
    """Returns a builder of the TFF model of a run, with the sums of training or of evaluation.

    Its initial weights are zeros, because clients and evaluations always get weights.
    """
    return variable_model.build_model_fn(
        config.model.type,
        vocabulary_size=vocabulary_size,
        seed=None,
        weight_unit=_weight_unit(config),
        evaluation=evaluation,
        **config.model.options(),
    )


def build_training_model_fn(config: RunConfig, vocabulary_size: int) -> ModelFn:
    """Returns a builder of the clients' TFF model, with the loss of `[fine_tuning.method]`."""
    method = config.fine_tuning.method
    if not isinstance(method, LearningWithoutForgetting):
        return build_model_fn(config, vocabulary_size, evaluation=False)
    return lwf.build_lwf_model_fn(
        config.model.type,
        vocabulary_size=vocabulary_size,
        options=config.model.options(),
        true_label_weight=method.true_label_weight,
        weight_unit=_weight_unit(config),
    )


def _weight_unit(config: RunConfig) -> str:
    return "examples" if config.aggregation.client_weighting == "examples" else "tokens"


def build_weight_limit(config: RunConfig, vocabulary_size: int) -> WeightLimit:
    """Returns the bounds on a client's weight. `weight_cap.py` then caps the weights."""
    uniform = config.aggregation.client_weighting == "uniform"
    limit: WeightLimit = zero_or_one if uniform else tf.identity
    if isinstance(config.aggregation.rule, FedMedConfig):
        return limit_fedmed_weight(limit, vocabulary_size)
    if isinstance(config.aggregation.row_correction, FedSubAvgConfig):
        return row_correction.limit_row_weight(limit)
    return limit


class _Parts(NamedTuple):
    """Parts of an algorithm."""

    model_fn: ModelFn
    rule: Factory
    protect: Callable[[Factory], Factory]
    wrap: WrapClientWork | None = None
    joined: bool = False
    # touched rows for `aggregation.row_correction`; None without it
    touched_rows: TouchedTableRows | None = None


def _touched_rows(config: RunConfig, vocabulary_size: int) -> TouchedTableRows | None:
    if not isinstance(config.aggregation.row_correction, FedSubAvgConfig):
        return None
    return TouchedTableRows(vocabulary_size, lambda batch: (batch["x"], batch["y"]))


def _fedavg(config: RunConfig, parts: _Parts) -> Process:
    assert isinstance(config.client, FedAvgClient)
    build: Callable[..., Process]
    if isinstance(parts.rule, FedMedFactory):
        build = functools.partial(build_fedmed, factory=parts.rule, protect=parts.protect)
    else:
        build = functools.partial(
            fed_avg.build_fed_avg,
            aggregator=parts.protect(parts.rule),
            touched_rows=parts.touched_rows,
        )
    return build(
        parts.model_fn,
        client_optimizer=optimizers.build_client_optimizer(config.client),
        server_optimizer=optimizers.build_server_optimizer(config.server),
        uniform_weights=config.aggregation.client_weighting == "uniform",
        wrap_client_work=parts.wrap,
        joined=parts.joined,
    )


def _fedsgd(config: RunConfig, parts: _Parts) -> Process:
    if parts.wrap is not None:
        raise ValueError("`client.type` = 'fedsgd' has no client work to wrap. Use 'fedavg'.")
    return fed_sgd.build_fed_sgd(
        parts.model_fn,
        server_optimizer=optimizers.build_server_optimizer(config.server),
        aggregator=parts.protect(parts.rule),
    )


ALGORITHMS: Mapping[str, Callable[[RunConfig, _Parts], Process]] = {
    "fedavg": _fedavg,
    "fedsgd": _fedsgd,
}


def _one_client_config(config: RunConfig) -> RunConfig:
    """Returns the config of a process that trains one client and takes its model unchanged.

    The client's weight is its number of tokens, so a client without tokens has no usable model.
    """
    return dataclasses.replace(
        config,
        server=FedAvgServer(learning_rate=1.0),
        aggregation=AggregationConfig(rule=MeanConfig(), client_weighting="tokens"),
        fine_tuning=dataclasses.replace(config.fine_tuning, server=Averaging()),
    )


def build_process(
    config: RunConfig,
    initial_model: NextWordModel,
    *,
    wrap_client_work: WrapClientWork | None = None,
    general_store: ClientStore | None = None,
    build_noise: BuildNoise | None = None,
    joined: bool = False,
    takes_sums: bool = False,
) -> RoundProcess:
    """The learning process of `client.type` with the aggregator of `aggregation.rule.type`.

    With `fine_tuning.server.type` = "transfer" it is a `server_transfer.ServerTransferProcess`.

    Args:
      config: Config of the run.
      initial_model: Model before training.
      wrap_client_work: Changes the work of clients, for simulations of attacks.
      general_store: The store of `fine_tuning.general_store`, for the server's transfer learning
        on general text.
      build_noise: `run_privacy.RunPrivacy.build_noise`, for a private run with noise.
      joined: Whether clients may have joined batches (`data/elements.py`), which is faster. Work
        without such a form (FedSGD, the server's transfer learning, wrapped work) gets single
        batches in any case. The type of `next` shows the form.
      takes_sums: Whether a round gets the secure sum of the updates
        (`tff_keyboard_fleet/on_devices`).

    Raises:
      ValueError: Options exclude each other, or a private run has no noise.
    """
    if isinstance(config.fine_tuning.server, Transfer):
        return _server_transfer(config, initial_model, wrap_client_work, general_store)
    weights = weights_by_name(initial_model)
    vocabulary_size = initial_model.vocabulary_size
    parts = _Parts(
        build_training_model_fn(config, vocabulary_size),
        build_rule(
            config.aggregation,
            clients_per_round=config.train.clients_per_round,
            variable_names=list(weights),
            takes_sums=takes_sums,
        ),
        functools.partial(
            protect,
            config=config.aggregation,
            seed=config.train.seed,
            variable_names=list(weights),
            limit=build_weight_limit(config, vocabulary_size),
        ),
        wrap_client_work,
        joined and wrap_client_work is None,
        _touched_rows(config, vocabulary_size),
    )
    process = ALGORITHMS[config.client.type](config, parts)
    process = with_initial_weights(process, list(weights.values()))
    privacy = config.aggregation.privacy
    if not isinstance(privacy, MechanismConfig) or not privacy.noise_multiplier:
        return process
    if build_noise is None:
        raise ValueError(
            "A run with privacy noise requires `build_noise`, the noise of its key. See "
            "`privacy.run_privacy.open_run_privacy`."
        )
    return NoisedProcess(process, build_noise)


def _server_transfer(
    config: RunConfig,
    initial_model: NextWordModel,
    wrap: WrapClientWork | None,
    general_store: ClientStore | None,
) -> RoundProcess:
    assert isinstance(config.fine_tuning.server, Transfer)
    weights = weights_by_name(initial_model)
    one_client = _one_client_config(config)
    model_fn = build_training_model_fn(one_client, initial_model.vocabulary_size)
    # The mean of one client is NaN if its weight is 0, so a model without training is distinguished
    # from a
    # trained one.
    parts = _Parts(model_fn, tff.aggregators.MeanFactory(), lambda mean: mean, wrap)
    process = _fedavg(one_client, parts)
    return server_transfer.build_server_transfer(
        with_initial_weights(process, list(weights.values())),
        config.fine_tuning.server,
        initial_model,
        general_store,
        max_length=config.data.max_length,
        seed=config.train.seed,
    )
