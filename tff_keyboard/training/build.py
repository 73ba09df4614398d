"""Builds the parts of a run from its config.

`federated.py` and `central.py` put the parts together. Only these three modules, `advice/advice.py`
and `command_line/options.py` know a whole `RunConfig`. All other modules take plain values or one
table.

    check_best_metric, open_stores     checks and stores before anything is built
    open_engine                        threads of this process, or the nodes of a cluster
    build_initial_model                the Keras model before training
    build_process                      client work, aggregator and server optimizer
    round_transforms                   what is wrapped around the process: noise, rates, averaging
    build_aggregator                   the aggregator alone, with its protection
    build_central_process              training on pooled text
    build_cohorts, build_pooled        the data of each round
    build_privacy                      noise key, mechanism and ledger header of a private run
    build_model_fn, build_validation   the evaluation during training
    build_run_settings                 rounds, checkpoints and metrics of the run
    build_recipe                       recipe from which cluster nodes make the same data

An update passes the steps of `build_aggregator` in this order, from outside in:

    guard            rejects NaN, infinity and impossible weights; limits claims; counts both
    weight cap       twice the median weight of earlier rounds at most, unless all weights are equal
    row correction   rows of word tables count the clients that typed the word, if configured
    client noise     FedAtt's eq. 6, if configured
    compression      quantises and decodes; or only counts bytes
    zeroing          updates with an extreme coordinate become zeros (adaptive quantile)
    clipping         whole updates to an L2 norm (adaptive quantile, or fixed)
    aggregator       mean, FedAtt, FedMed, private FedAtt, median, trimmed mean, private mean

Every factory is weighted. If privacy needs equal clients, the factory drops the weight.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, assert_never

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators import row_correction, upload_size
from tff_keyboard.aggregators.bounded_trimmed_mean import BoundedTrimmedMeanFactory
from tff_keyboard.aggregators.compression import CompressedUploadFactory
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory
from tff_keyboard.aggregators.fedatt.client_noise import ClientNoiseFactory
from tff_keyboard.aggregators.fedatt.private_fedatt import PrivateFedAttFactory
from tff_keyboard.aggregators.fedmed.accumulator import limit_fedmed_weight
from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.aggregators.guards import norm_bounds
from tff_keyboard.aggregators.guards.update_guard import (
    UpdateGuardFactory,
    WeightLimit,
    zero_or_one,
)
from tff_keyboard.aggregators.guards.weight_cap import WeightCapFactory
from tff_keyboard.aggregators.private.private_mean import PrivateMeanFactory
from tff_keyboard.aggregators.processes import Factory
from tff_keyboard.aggregators.robust_mean import MedianFactory, TrimmedMeanFactory
from tff_keyboard.aggregators.row_correction import RowCorrectionFactory
from tff_keyboard.algorithms import fed_avg, fed_sgd, schedules, variable_model
from tff_keyboard.algorithms.central_training import CentralTraining, PooledInputs
from tff_keyboard.algorithms.client_packing.local_context import LocalContext
from tff_keyboard.algorithms.client_training import TouchedTableRows
from tff_keyboard.algorithms.composition import ClientWork, ModelFn, with_initial_weights
from tff_keyboard.algorithms.federated_evaluation import FederatedEvaluator
from tff_keyboard.algorithms.fedmed.process import build_fedmed
from tff_keyboard.algorithms.fine_tuning import lwf, server_transfer
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.algorithms.rounds import noised
from tff_keyboard.algorithms.rounds.averaged import AveragedProcess
from tff_keyboard.algorithms.rounds.round_process import RoundProcess, RoundTransform
from tff_keyboard.algorithms.rounds.scheduled import RatesOfRound, ScheduledProcess
from tff_keyboard.config import ConfigError, RunConfig, to_dict
from tff_keyboard.config.resume_policy import numerics_config
from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.config.sections import rule_config as rules
from tff_keyboard.config.sections.averaging_config import NoAverage
from tff_keyboard.config.sections.execution_config import ENGINES
from tff_keyboard.config.sections.fine_tuning_config import (
    LearningWithoutForgetting,
    RehearsalMethod,
    TransferConfig,
)
from tff_keyboard.config.sections.learning_config import (
    CentralAdam,
    CentralSgd,
    FedAvgClient,
    FedAvgM,
    FedSgdClient,
    ServerConfig,
)
from tff_keyboard.config.sections.privacy_config import GaussianConfig, MechanismConfig
from tff_keyboard.data.sources.messages import POPULATIONS
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary
from tff_keyboard.evaluation.metrics import metric_table
from tff_keyboard.execution import threading_options
from tff_keyboard.execution.engine import Engine, LocalEngine
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.initial_weights import assign_initial_weights
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.privacy.ledger.origin import id_of_run
from tff_keyboard.storage import entry_points
from tff_keyboard.storage.errors import DataError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import validation
from tff_keyboard.training.client_inputs import CohortInputs
from tff_keyboard.training.run_privacy import RunPrivacy, open_run_privacy
from tff_keyboard.training.train_run import LAST, RunSettings

if TYPE_CHECKING:
    from tff_keyboard.training.on_cluster.client_references import Recipe

# Fields of `[aggregation.privacy]` for the ledger and the noise key, not for the aggregator
_OF_RUNS = ("delta", "noise_secret", "fixed_nonce")

Names: TypeAlias = Sequence[str] | None
Process: TypeAlias = tff.learning.templates.LearningProcess
WrapClientWork: TypeAlias = Callable[[ClientWork], ClientWork]


def metric_names(config: RunConfig) -> list[str]:
    """Returns the names of a run's validation metrics."""
    names = list(metric_table.FEDERATED_METRICS)
    if config.fine_tuning.general_store:
        names += [f"{part}/{name}" for part in ("general", "trade_off") for name in names]
    return names


def check_best_metric(config: RunConfig) -> None:
    """Checks that `train.best_metric` is the name of a validation metric.

    With `averaging` the names are metrics of the average; `last/...` are metrics of the last model.

    Raises:
      ConfigError: The name is unknown.
    """
    known = metric_names(config)
    if not isinstance(config.averaging, NoAverage):
        known = [*known, *(f"{LAST}/{name}" for name in known)]
    if config.train.best_metric not in known:
        raise ConfigError(
            f"`train.best_metric` must be one of {', '.join(known)}; "
            f"got {config.train.best_metric!r}."
        )


def open_stores(config: RunConfig) -> tuple[ClientStore, ClientStore | None]:
    """Opens the clients' store and `fine_tuning.general_store` (None without one).

    Raises:
      DataError: A directory is not a store, or the vocabularies differ; or the run is private, and
        clients whom its noise protects are in the general store.
    """
    store = ClientStore(config.data.store)
    if not config.fine_tuning.general_store:
        return store, None
    general = ClientStore(config.fine_tuning.general_store)
    if general.vocabulary != store.vocabulary:
        raise DataError(
            f"`fine_tuning.general_store` = '{general.directory}' has another vocabulary than "
            f"{store.directory}. Prepare both with the same `data.vocabulary_path`."
        )
    if config.aggregation.is_private:
        _check_general_clients(store, general)
    return store, general


def _check_general_clients(store: ClientStore, general: ClientStore) -> None:
    """Checks that the noise of a private run covers every way in which a client's text is used.

    Any number of other clients may rehearse the general messages, and validation on the general
    store may choose the released round. The sensitivity of the sum covers neither.
    """
    clients = set(store.client_ids("train"))
    general_clients = {one for name in POPULATIONS for one in general.client_ids(name)}
    shared = clients & general_clients
    if shared:
        raise DataError(
            f"`fine_tuning.general_store` = '{general.directory}' has {len(shared)} of the "
            f"{len(clients)} train clients of {store.directory}. `aggregation.privacy` protects "
            "these clients only if no other client trains on their text. Prepare the general store "
            "without them, or set `aggregation.privacy.type` = 'none'."
        )


@contextlib.contextmanager
def open_engine(
    config: RunConfig, stores: Sequence[ClientStore | None], *, allow_tff_server: bool = False
) -> Iterator[Engine]:
    """Yields the engine of `[execution]`, and makes this process TFF's default context.

    Computations that cannot run in this process go to TFF's own server if `allow_tff_server`, and
    raise `CannotPackError` otherwise.

    Every engine but "local" is found by its entry point (`execution_config.ENGINES`) and imported
    here: a function of `[execution]` and the stores that returns an `Engine`.

    Raises:
      ClusterError: The cluster cannot compute this run.
    """
    execution = config.execution
    threading_options.use_one_thread_an_operation()
    here = LocalEngine(execution.threads)
    tff.framework.set_default_context(LocalContext(here, allow_tff_server=allow_tff_server))
    with contextlib.closing(here):
        if execution.engine == "local":
            yield here
            return
        open_nodes = entry_points.find(ENGINES)[execution.engine].load()
        with contextlib.closing(open_nodes(execution, stores)) as nodes:
            yield nodes


def build_initial_model(config: RunConfig, vocabulary: Vocabulary) -> NextWordModel:
    """Builds the model before training: drawn by `train.seed`, or read from `model.initial_model`.

    Raises:
      SavedModelError: `model.initial_model` is not a model or does not fit.
    """
    model = _build_model(config, len(vocabulary), seed=config.train.seed)
    if config.model.initial_model:
        found = assign_initial_weights(model, config.model.initial_model, vocabulary)
        print(
            f"{config.model.initial_model}: {found:,} of {len(vocabulary) - NUM_SPECIAL:,} words "
            "start with its rows.",
            flush=True,
        )
    return model


def _build_model(config: RunConfig, vocabulary_size: int, *, seed: int | None) -> NextWordModel:
    return build_model(
        config.model.type, vocabulary_size=vocabulary_size, seed=seed, **config.model.options()
    )


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


def _training_model_fn(config: RunConfig, vocabulary_size: int) -> ModelFn:
    """Returns a builder of the clients' TFF model, with the loss of `[fine_tuning.method]`."""
    method = config.fine_tuning.method
    if isinstance(method, LearningWithoutForgetting):
        return lwf.build_lwf_model_fn(
            config.model.type,
            vocabulary_size=vocabulary_size,
            options=config.model.options(),
            true_label_weight=method.true_label_weight,
            weight_unit=_weight_unit(config),
        )
    return build_model_fn(config, vocabulary_size, evaluation=False)


def _weight_unit(config: RunConfig) -> str:
    return "examples" if config.aggregation.client_weighting == "examples" else "tokens"


def build_weight_limit(config: RunConfig, vocabulary_size: int) -> WeightLimit:
    """Returns the bounds on a client's weight. `weight_cap.py` then caps the weights."""
    uniform = config.aggregation.client_weighting == "uniform"
    limit: WeightLimit = zero_or_one if uniform else tf.identity
    if isinstance(config.aggregation.rule, rules.FedMedConfig):
        return limit_fedmed_weight(limit, vocabulary_size)
    if isinstance(config.aggregation.row_correction, tables.FedSubAvgConfig):
        return row_correction.limit_row_weight(limit)
    return limit


def build_rule(
    config: tables.AggregationConfig,
    *,
    clients_per_round: int,
    variable_names: Names = None,
    takes_sums: bool = False,
) -> Factory:
    """Builds the factory of `aggregation.rule` without protection (see `build_aggregator`).

    Args:
      config: The table `[aggregation]`.
      clients_per_round: The report goal.
      variable_names: Names of the tensors of an update, in order.
      takes_sums: Whether a private mean takes sums of updates. A mean takes the mean of a sum as
        one update.
    """
    rule, privacy, names = config.rule, config.privacy, variable_names
    match rule:
        case rules.MeanConfig() if config.is_private:
            assert isinstance(privacy, MechanismConfig)
            own = privacy.arguments()
            private = PrivateMeanFactory(
                mechanism=privacy.type,
                **{name: value for name, value in own.items() if name not in _OF_RUNS},
                clients_per_round=clients_per_round,
                draws_noise=False,
                takes_sums=takes_sums,
            )
            return tff.aggregators.as_weighted_aggregator(private)
        case rules.MeanConfig():
            return tff.aggregators.MeanFactory(no_nan_division=True)
        case rules.FedAttConfig():
            return FedAttFactory(**rule.arguments(), variable_names=names)
        case rules.FedMedConfig():
            return FedMedFactory(
                **rule.arguments(),
                max_clients=clients_per_round,
                variable_names=names,
            )
        case rules.PrivateFedAttConfig():
            assert isinstance(privacy, GaussianConfig)
            factory = PrivateFedAttFactory(
                **rule.arguments(),
                noise_multiplier=privacy.noise_multiplier,
                layer_clip_norm=privacy.clip_norm,
                variable_names=names,
                draws_noise=False,
            )
            return tff.aggregators.as_weighted_aggregator(factory)
        case rules.MedianConfig():
            return MedianFactory()
        case rules.TrimmedMeanConfig():
            return TrimmedMeanFactory(**rule.arguments())
        case rules.BoundedTrimmedMeanConfig():
            return BoundedTrimmedMeanFactory(**rule.arguments())
    assert_never(rule)  # mypy reports an aggregator without a case


def build_aggregator(
    config: tables.AggregationConfig,
    *,
    clients_per_round: int,
    seed: int,
    variable_names: Names = None,
    limit: WeightLimit | None = None,
    takes_sums: bool = False,
) -> Factory:
    """Builds the factory of a config, with its protection.

    Args:
      config: The table `[aggregation]`.
      clients_per_round: The report goal: the denominator of private means, and the buffer of
        FedMed.
      seed: Seed of the run. Noise and rounding are pure functions of the seed and the round.
      variable_names: Names of the tensors of an update, in order, for `layer_groups`.
      limit: Bounds on a client's weight. None means no bounds; weights are capped in any case.
      takes_sums: See `build_rule`.

    Returns:
      A weighted factory. Weights are float32 scalars; for "fedmed" they are `fedmed_weight_type`,
      which `build_scored_client_work` computes.

    Raises:
      ValueError: Options do not fit `clients_per_round`.
    """
    factory = build_rule(
        config,
        clients_per_round=clients_per_round,
        variable_names=variable_names,
        takes_sums=takes_sums,
    )
    protection = config.resolved_protection
    estimate = tff.aggregators.PrivateQuantileEstimationProcess.no_noise
    if isinstance(protection, tables.FixedClipping):
        factory = norm_bounds.clipping_factory(protection.clip_norm, factory)
    if isinstance(protection, tables.AdaptiveClipping):
        bound = estimate(
            initial_estimate=protection.clip_norm,
            target_quantile=protection.quantile,
            learning_rate=protection.learning_rate,
        )
        factory = norm_bounds.clipping_factory(bound, factory)
    if protection.zeroing:
        # As `_default_zeroing` of TFF's federated/learning/model_update_aggregator.py: within a
        # round or two at twice the 98 % quantile, plus one.
        bound = estimate(
            initial_estimate=10.0,
            target_quantile=0.98,
            learning_rate=math.log(10.0),
            multiplier=2.0,
            increment=1.0,
        )
        factory = norm_bounds.zeroing_factory(bound, factory)
    if isinstance(config.compression, tables.UniformQuantization):
        factory = CompressedUploadFactory(factory, **config.compression.arguments(), seed=seed)
    else:
        factory = upload_size.UploadSizeFactory(factory)
    if isinstance(config.client_noise, tables.NormalClientNoise):
        factory = ClientNoiseFactory(factory, **config.client_noise.arguments(), seed=seed)
    if isinstance(config.row_correction, tables.FedSubAvgConfig):
        factory = RowCorrectionFactory(
            factory,
            largest_factor=config.row_correction.largest_factor,
            variable_names=variable_names or (),
        )
    if config.client_weighting != "uniform":
        factory = WeightCapFactory(factory)
    return UpdateGuardFactory(factory, limit=limit)


def build_process(
    config: RunConfig,
    initial_model: NextWordModel,
    *,
    wrap_client_work: WrapClientWork | None = None,
    joined: bool = False,
    takes_sums: bool = False,
) -> RoundProcess:
    """Builds the learning process of `client.type` with the aggregator of `aggregation.rule.type`.

    Args:
      config: Config of the run.
      initial_model: Model before training.
      wrap_client_work: Changes the work of clients, for simulations of attacks.
      joined: Whether clients may have joined batches (`data/elements.py`), which is faster. Work
        without such a form (FedSGD, wrapped work) gets single
        batches in any case. The type of `next` shows the form.
      takes_sums: Whether a round gets the secure sum of the updates
        (`tff_keyboard_fleet/on_devices`).

    Raises:
      ValueError: Options exclude each other.
    """
    aggregation = config.aggregation
    weights = weights_by_name(initial_model)
    vocabulary_size = initial_model.vocabulary_size
    model_fn = _training_model_fn(config, vocabulary_size)
    if isinstance(config.fine_tuning.server, TransferConfig):
        assert isinstance(config.client, FedAvgClient)
        return server_transfer.build_client_models(
            model_fn,
            initial_model,
            client_optimizer=optimizers.build_client_optimizer(config.client),
            wrap_client_work=wrap_client_work,
            joined=joined and wrap_client_work is None,
        )
    server_optimizer = optimizers.build_server_optimizer(config.server)
    clients_per_round = config.train.clients_per_round
    aggregator = build_aggregator(
        aggregation,
        clients_per_round=clients_per_round,
        seed=config.train.seed,
        variable_names=list(weights),
        limit=build_weight_limit(config, vocabulary_size),
        takes_sums=takes_sums,
    )
    if isinstance(config.client, FedSgdClient):
        if wrap_client_work is not None:
            raise ValueError("`client.type` = 'fedsgd' has no client work to wrap. Use 'fedavg'.")
        process = fed_sgd.build_fed_sgd(
            model_fn, server_optimizer=server_optimizer, aggregator=aggregator
        )
    else:
        build: Callable[..., Process]
        if isinstance(aggregation.rule, rules.FedMedConfig):
            fedmed = build_rule(
                aggregation,
                clients_per_round=clients_per_round,
                variable_names=list(weights),
            )
            build = functools.partial(build_fedmed, factory=fedmed)
        else:
            touched_rows = None
            if isinstance(aggregation.row_correction, tables.FedSubAvgConfig):
                touched_rows = TouchedTableRows(
                    vocabulary_size, lambda batch: (batch["x"], batch["y"])
                )
            build = functools.partial(fed_avg.build_fed_avg, touched_rows=touched_rows)
        process = build(
            model_fn,
            aggregator=aggregator,
            client_optimizer=optimizers.build_client_optimizer(config.client),
            server_optimizer=server_optimizer,
            uniform_weights=aggregation.client_weighting == "uniform",
            wrap_client_work=wrap_client_work,
            joined=joined and wrap_client_work is None,
        )
    return with_initial_weights(process, list(weights.values()))


def clients_per_pack(config: RunConfig) -> int:
    """Returns the largest number of clients that train in one call; 0 means 16 calls per round."""
    if isinstance(config.fine_tuning.server, TransferConfig):
        return 1  # the server learns from the model of each client
    return config.execution.clients_per_pack


def round_transforms(
    config: RunConfig,
    model: NextWordModel,
    privacy: RunPrivacy | None,
    general_store: ClientStore | None = None,
    *,
    is_on_devices: bool = False,
) -> list[RoundTransform]:
    """Returns what is wrapped around the packed learning process of a run, the innermost first.

    Args:
      config: Config of the run.
      model: The model before training.
      privacy: Noise key and mechanism of a private run.
      general_store: The store of `fine_tuning.general_store`, for transfer learning on the server.
      is_on_devices: Whether clients are devices. They get their learning rates from a plan. Other
        devices may upload to a round of a run that is restored from a backup, so the noise of each
        round depends on its uploads.
    """
    transforms: list[RoundTransform] = []
    if isinstance(config.fine_tuning.server, TransferConfig):
        transforms.append(
            server_transfer.build_server_transfer(
                config.fine_tuning.server,
                model,
                general_store,
                max_length=config.data.max_length,
                seed=config.train.seed,
            )
        )
    if privacy is not None and privacy.key is not None:
        assert privacy.build_noise is not None
        content = noised.content_of_data(privacy.key.key) if is_on_devices else None
        transforms.append(
            functools.partial(
                noised.NoisedProcess, build_noise=privacy.build_noise, content=content
            )
        )
    scheduled: dict[str, ServerConfig | FedAvgClient] = {"finalizer": config.server}
    if not is_on_devices and isinstance(config.client, FedAvgClient):
        scheduled["client_work"] = config.client
    if not all(schedules.is_constant(table.schedule) for table in scheduled.values()):
        transforms.append(functools.partial(ScheduledProcess, rates=_rates_of(scheduled)))
    return [*transforms, *_averaging(config)]


def central_transforms(config: RunConfig) -> list[RoundTransform]:
    """Returns what is wrapped around the central training of a run, the innermost first."""
    table = config.client if isinstance(config.central, CentralSgd) else config.central
    assert isinstance(table, FedAvgClient | CentralAdam)  # `build_central_process` checks it
    transforms: list[RoundTransform] = []
    if not schedules.is_constant(table.schedule):
        rates = _rates_of({"optimizer": table})
        transforms.append(functools.partial(ScheduledProcess, rates=rates))
    return [*transforms, *_averaging(config)]


def _averaging(config: RunConfig) -> list[RoundTransform]:
    if isinstance(config.averaging, NoAverage):
        return []
    return [functools.partial(AveragedProcess, averaging=config.averaging)]


def _rates_of(
    optimizers_of_parts: Mapping[str, ServerConfig | FedAvgClient | CentralAdam],
) -> RatesOfRound:
    """Returns the learning rate of each part of a state, as a function of the round."""
    return lambda round_num: {
        part: table.learning_rate * schedules.factor(table.schedule, round_num)
        for part, table in optimizers_of_parts.items()
    }


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
            "`client.type` = 'fedsgd' has no optimizer for train-server. Use 'fedavg'."
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
        teacher = _build_model(config, model.vocabulary_size, seed=None)
        teacher.set_weights(model.get_weights())
        return CentralTraining(model, optimizer, teacher, method.true_label_weight)
    return CentralTraining(model, optimizer)


def build_rehearsal(config: RunConfig, general_store: ClientStore | None) -> Rehearsal | None:
    """Returns the source of general messages; None if `fine_tuning.method` is another method."""
    if not isinstance(config.fine_tuning.method, RehearsalMethod):
        return None
    if general_store is None:
        raise ValueError("Rehearsal requires the client store of `fine_tuning.general_store`.")
    return Rehearsal(general_store, config.fine_tuning.method.portion)


def build_cohorts(
    config: RunConfig,
    store: ClientStore,
    rehearsal: Rehearsal | None = None,
    *,
    cohort_key: bytes = b"",
    num_parameters: int = 0,
) -> CohortInputs:
    """Builds the train cohorts of a run, and their batches; see `CohortInputs`."""
    return CohortInputs(
        store,
        train=config.train,
        client=config.client,
        max_length=config.data.max_length,
        long_messages=config.data.long_messages,
        rehearsal=rehearsal,
        cohort_key=cohort_key,
        num_parameters=num_parameters,
    )


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


def build_privacy(
    config: RunConfig,
    run: RunDirectory,
    store: ClientStore,
    model: NextWordModel,
    *,
    client_ids: Sequence[str] | None,
    selected_per_round: int,
    general_sha256: str = "",
) -> RunPrivacy | None:
    """Starts or resumes the privacy of a run; None if the run is not private.

    Args:
      config: Config of the run.
      run: The open run directory.
      store: The client store.
      model: The model before training.
      client_ids: Ids of the store's clients; None if devices check in by themselves.
      selected_per_round: Clients drawn per round, with over-selection.
      general_sha256: Hash of the general store, from its card, if any.

    Raises:
      NoiseKeyError, RunDirectoryError: See `open_run_privacy`.
    """
    if not config.aggregation.is_private:
        return None
    return open_run_privacy(
        config.aggregation,
        train=config.train,
        momentum=config.server.momentum if isinstance(config.server, FedAvgM) else 0.0,
        initial_model=config.model.initial_model,
        config_facts=numerics_config(to_dict(config)),
        ledger_path=run.privacy_ledger,
        nonce_path=run.noise_nonce,
        store_card=store.card,
        client_ids=client_ids,
        initial_weights=list(weights_by_name(model).values()),
        selected_per_round=selected_per_round,
        general_sha256=general_sha256,
        run_id=id_of_run(run),
    )


def build_validation(
    config: RunConfig,
    store: ClientStore,
    general_store: ClientStore | None,
    evaluator: FederatedEvaluator | None = None,
    recipe: "Recipe | None" = None,
) -> validation.Validation:
    """Builds the evaluation of a run's validation clients.

    Args:
      config: Config of the run.
      store: The client store.
      general_store: The store of `fine_tuning.general_store`, if any.
      evaluator: Evaluates on clients through TFF. None evaluates the same messages without TFF.
      recipe: Names the clients, for evaluation on the nodes of a cluster.
    """
    max_length = config.data.max_length
    if evaluator is not None:
        name_packs = recipe.evaluation_packs if recipe else None
        evaluate_on = validation.federated(evaluator, config.evaluation, max_length, name_packs)
    else:
        # Its weights are assigned before each evaluation.
        model = _build_model(config, len(store.vocabulary), seed=None)
        predictor = KerasPredictor(model, store.vocabulary)
        evaluate_on = validation.in_this_process(predictor, config.evaluation, max_length)
    return validation.Validation(store, general_store, evaluate_on, config.fine_tuning.user_weight)


def build_run_settings(config: RunConfig) -> RunSettings:
    """Returns the values of a config that `train_run` needs."""
    return RunSettings(
        train=config.train,
        evaluate_every=config.evaluation.every,
        is_private=config.aggregation.is_private,
    )


def build_recipe(
    config: RunConfig, store: ClientStore, general_store: ClientStore | None = None
) -> "Recipe":
    """Returns the recipe from which the nodes of a cluster make a run's data themselves."""
    from tff_keyboard.training.on_cluster.client_references import Recipe
    from tff_keyboard.training.on_cluster.store_references import StoreReference

    method, general, portion = config.fine_tuning.method, None, 0.0
    if isinstance(method, RehearsalMethod) and general_store is not None:
        general, portion = StoreReference.of(general_store), method.portion
    return Recipe(
        store=StoreReference.of(store),
        general=general,
        train=config.train,
        client=config.client,
        evaluation=config.evaluation,
        max_length=config.data.max_length,
        long_messages=config.data.long_messages,
        rehearsal_portion=portion,
    )
