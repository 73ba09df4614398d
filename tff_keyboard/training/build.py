"""Builds the parts of a run from its config.

`federated.py` and `central.py` put the parts together. Only the modules of this folder that are
named here, `advice/advice.py` and `command_line/options.py` know a whole `RunConfig`. All other
modules take plain values or one table.

    run_stores.py          the checks, stores and engine before anything is built
    build_initial_model    the Keras model before training
    build_process          client algorithm (`algorithms/registry/`), aggregator
                           (`aggregation.py`) and server optimizer
    process_transforms.py  the transforms around the process: noise, rates, averaging
    build_cohorts          the data of each round
    build_privacy          noise key, mechanism and ledger header of a private run
    build_model_fn, build_validation   the evaluation during training
    build_run_settings     rounds, checkpoints and metrics of the run
    build_recipe           recipe from which cluster nodes make the same data
    central.py             the process and the data of training on pooled text
"""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tff_keyboard.algorithms import variable_model
from tff_keyboard.algorithms.composition import ModelFn, WrapClientWork, with_initial_weights
from tff_keyboard.algorithms.federated_evaluation import FederatedEvaluator
from tff_keyboard.algorithms.fine_tuning import lwf, server_transfer
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.algorithms.optimizers.registry.fedavgm import FedAvgM
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient
from tff_keyboard.algorithms.rounds.round_process import RoundProcess
from tff_keyboard.config import ConfigError, RunConfig, to_dict
from tff_keyboard.config.resume_policy import numerics_config
from tff_keyboard.config.sections.aggregation_config import FedSubAvgConfig
from tff_keyboard.config.sections.fine_tuning_config import (
    LearningWithoutForgetting,
    RehearsalMethod,
    TransferConfig,
)
from tff_keyboard.config.sections.train_config import OwnMetric
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NUM_SPECIAL, Vocabulary
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.execution import threading_options
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.initial_weights import assign_initial_weights
from tff_keyboard.models.keras_next_word_model import KerasNextWordModel
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.parts import calls, own_part
from tff_keyboard.parts.aggregator import AggregatorRun
from tff_keyboard.parts.client_algorithm import ProcessParts
from tff_keyboard.parts.privacy_mechanism import MechanismConfig
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.privacy.ledger.origin import read_origin
from tff_keyboard.storage import part_reference
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import aggregation, validation
from tff_keyboard.training.client_inputs import CohortInputs
from tff_keyboard.training.run_privacy import RunPrivacy, open_run_privacy
from tff_keyboard.training.train_run import RunSettings

if TYPE_CHECKING:
    from tff_keyboard.training.on_cluster.client_references import Recipe


def build_initial_model(config: RunConfig, vocabulary: Vocabulary) -> NextWordModel:
    """Builds the model before training: drawn by `train.seed`, or read from `model.initial_model`.

    Raises:
      SavedModelError: `model.initial_model` is not a model or does not fit.
    """
    model = build_model_of(config, len(vocabulary), seed=config.train.seed)
    if config.model.initial_model:
        num_words = assign_initial_weights(model, config.model.initial_model, vocabulary)
        print(
            f"{config.model.initial_model}: {num_words:,} of {len(vocabulary) - NUM_SPECIAL:,} "
            "words start with its rows.",
            flush=True,
        )
    return model


def build_model_of(config: RunConfig, vocabulary_size: int, *, seed: int | None) -> NextWordModel:
    """Builds the model of `[model]`; see `models.build_model`."""
    return build_model(
        config.model.name,
        vocabulary_size=vocabulary_size,
        seed=seed,
        **config.model.arguments(),
    )


def build_model_fn(config: RunConfig, vocabulary_size: int, *, evaluation: bool) -> ModelFn:
    """Returns a builder of the TFF model of a run, with the sums of training or of evaluation.

    Its initial weights are zeros, because clients and evaluations always get weights.
    """
    return variable_model.build_model_fn(
        config.model.name,
        vocabulary_size=vocabulary_size,
        seed=None,
        weight_unit=_weight_unit(config),
        evaluation=evaluation,
        shares_first_step=config.execution.first_step != "separate",
        **config.model.arguments(),
    )


def _training_model_fn(config: RunConfig, vocabulary_size: int) -> ModelFn:
    """Returns a builder of the clients' TFF model, with the loss of `[fine_tuning.method]`."""
    method = config.fine_tuning.method
    if isinstance(method, LearningWithoutForgetting):
        return lwf.build_lwf_model_fn(
            config.model.name,
            vocabulary_size=vocabulary_size,
            options=config.model.arguments(),
            true_label_weight=method.true_label_weight,
            weight_unit=_weight_unit(config),
        )
    return build_model_fn(config, vocabulary_size, evaluation=False)


def _weight_unit(config: RunConfig) -> str:
    return "examples" if config.aggregation.client_weighting == "examples" else "tokens"


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
        without such a form (FedSGD, wrapped work) gets single batches in any case. The type of
        `next` shows the form.
      takes_sums: Whether a round gets the secure sum of the updates
        (`tff_keyboard_fleet/on_devices`).

    Raises:
      ConfigError: The work of this algorithm cannot be wrapped, or the user's own part raises an
        error or returns an object of another kind.
      ValueError: Options exclude each other.
    """
    if wrap_client_work is not None:
        config.client.check_wrapping()
    table = config.aggregation
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
    run = _aggregator_run(config, weights, takes_sums=takes_sums)
    limit = aggregation.build_weight_limit(table, vocabulary_size)
    rule = aggregation.build_rule(table, run)
    build_rule_process = None
    if table.rule.learning_process:
        build_of_rule = calls.load(table.rule.learning_process)
        build_rule_process = functools.partial(build_of_rule, factory=rule)
    process = config.client.build(
        ProcessParts(
            model_fn=model_fn,
            vocabulary_size=vocabulary_size,
            run=run,
            aggregator=aggregation.protect(rule, table, run, limit),
            build_rule_process=build_rule_process,
            uniform_weights=table.client_weighting == "uniform",
            corrects_rows=isinstance(table.row_correction, FedSubAvgConfig),
            server_optimizer=config.server.build(),
            wrap_client_work=wrap_client_work,
            joined=joined,
        )
    )
    return with_initial_weights(process, list(weights.values()))


def _aggregator_run(
    config: RunConfig, weights: Iterable[str], *, takes_sums: bool = False
) -> AggregatorRun:
    """Returns the values for the aggregator, given the names of the model's weights in order."""
    return AggregatorRun(
        clients_per_round=config.train.clients_per_round,
        seed=config.train.seed,
        variable_names=list(weights),
        takes_sums=takes_sums,
    )


def check_own_parts(config: RunConfig, vocabulary: Vocabulary) -> None:
    """Checks that the user's own parts in a config can be built, before a run directory exists.

    Raises:
      ConfigError: A part raises an error, or returns an object of the wrong kind.
    """
    own_metrics.check(config.evaluation.metrics, vocabulary)
    if all(isinstance(part, OwnMetric) for part in own_part.parts_in(config)):
        return
    threading_options.use_one_thread_an_operation()  # before the first operation
    with own_part.errors_of_parts(config):
        model = build_model_of(config, len(vocabulary), seed=config.train.seed)
        if isinstance(model, KerasNextWordModel):
            model.check_every_word(config.data.max_length)
        weights = weights_by_name(model)
        run = _aggregator_run(config, weights)
        config.aggregation.rule.check_types(run, [weight.shape for weight in weights.values()])
        build_process(config, model, joined=True)


@contextlib.contextmanager
def errors_of_rounds(config: RunConfig) -> Iterator[None]:
    """Converts errors of TensorFlow in rounds with the user's own parts to `ConfigError`."""
    try:
        with own_part.errors_of_parts(config):
            yield
    except tf.errors.ResourceExhaustedError:
        raise
    except tf.errors.OpError as error:
        parts = " and ".join(f"`{part.key}` = {part.type!r}" for part in own_part.parts_in(config))
        if not parts:
            raise
        raise ConfigError(
            f"In a round with {parts}, TensorFlow {part_reference.what_happened(error)}. Correct "
            "the part, and train in another run directory."
        ) from error


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
    privacy = config.aggregation.privacy
    if not isinstance(privacy, MechanismConfig):
        return None
    if not privacy.noise_multiplier:
        print(
            "`aggregation.privacy.noise_multiplier` = 0: updates are clipped, but there is no "
            "noise, and so no guarantee.",
            flush=True,
        )
    origin = read_origin(run)
    facts: dict[str, Any] = numerics_config(to_dict(config))
    if sources := own_part.sources_of(config):
        facts = {**facts, "own_parts": sources}  # other code gives other sums
    return open_run_privacy(
        config.aggregation,
        train=config.train,
        momentum=config.server.momentum if isinstance(config.server, FedAvgM) else 0.0,
        initial_model=config.model.initial_model,
        config_facts=facts,
        ledger_path=run.privacy_ledger,
        nonce_path=run.noise_nonce,
        store_card=store.card,
        client_ids=client_ids,
        initial_weights=list(weights_by_name(model).values()),
        selected_per_round=selected_per_round,
        general_sha256=general_sha256,
        run_id="" if origin is None else origin.run_id,
        changes_client_work=origin is not None and origin.changes_client_work,
        unchecked_parts=own_part.unchecked(config),
        unknown_weights=config.model.unknown_weights,
        secure_sums=client_ids is None and config.devices.secure_sums,
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
        So does a config with metrics of the user, which are functions of NumPy arrays.
      recipe: Names the clients, for evaluation on the nodes of a cluster.
    """
    max_length = config.data.max_length
    if evaluator is not None and not config.evaluation.metrics:
        name_packs = recipe.evaluation_packs if recipe else None
        evaluate_on = validation.federated(evaluator, config.evaluation, max_length, name_packs)
    else:
        # Its weights are assigned before each evaluation.
        model = build_model_of(config, len(store.vocabulary), seed=None)
        predictor = KerasPredictor(model, store.vocabulary)
        evaluate_on = validation.in_this_process(predictor, config.evaluation, max_length)
    metrics = [each.metric for each in own_metrics.build(config.evaluation.metrics)]
    return validation.Validation(
        store, general_store, evaluate_on, config.fine_tuning.user_weight, metrics
    )


def build_run_settings(config: RunConfig) -> RunSettings:
    """Returns the values of a config that `train_run` needs."""
    return RunSettings(
        train=config.train,
        evaluate_every=config.evaluation.every,
        evaluate_start=bool(config.model.initial_model),
        own_metrics=config.evaluation.metrics,
        own_parts={
            part.key: part.type
            for part in own_part.parts_in(config)
            if not isinstance(part, OwnMetric)
        },
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
