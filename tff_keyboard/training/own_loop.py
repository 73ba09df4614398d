"""Trains any learning process from a Python program, with everything that a run has."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.cohort_batcher import prepare_process
from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.algorithms.registry.program import ProgramClient
from tff_keyboard.algorithms.rounds.round_process import RoundInput
from tff_keyboard.config import ConfigError, RunConfig, as_run
from tff_keyboard.data import batches, elements
from tff_keyboard.data.client_data import ClientData
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.client_data_evaluation import evaluate_client_data
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.statistics.sums import federated_metrics
from tff_keyboard.models import NextWordModel
from tff_keyboard.parts import own_part
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage import names
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.training import build, client_inputs, run_stores, validation
from tff_keyboard.training.train_run import open_run, recorded_config, train_run

# `ModelWeights` -> metrics of a validation.
Validate: TypeAlias = Callable[[Any], Mapping[str, float]]

_TABLES = ("train", "client", "data", "evaluation")  # with an effect on a process of a program
_UNKNOWN_WEIGHTS = "a process of a Python program"  # in origin.json

# Keys that need a store -> what gives their values to a process on client data.
_DATASETS = "the datasets of `clients` are passed to the process as they are"
_ALL_CLIENTS = "`validate` gives the clients and messages of the validation"
_NEED_A_STORE = {
    "train": {
        "client_sampling": "the number of messages of a client is not known",
        "max_sampling_ratio": "the number of messages of a client is not known",
    },
    "client": dict.fromkeys((field.name for field in dataclasses.fields(ProgramClient)), _DATASETS),
    "data": {"long_messages": _DATASETS},
    "evaluation": dict.fromkeys(("clients", "max_examples", "batch_size"), _ALL_CLIENTS),
}


class _ClientsInMemory:
    """Client data with the attributes of a `ClientStore` that a run records."""

    truecase: Sequence[str] = ()

    def __init__(self, clients: ClientData, vocabulary: Vocabulary):
        self.data, self.vocabulary = clients, vocabulary
        names = "\n".join(clients.client_ids).encode()
        self.card = {
            "clients": "client data of a Python program",
            "client_ids_sha256": hashlib.sha256(names).hexdigest(),
            "populations": {"train": {"clients": len(clients.client_ids)}},
        }

    @property
    def vocabulary_text(self) -> str:
        return self.vocabulary.to_bytes().decode()

    def client_ids(self, population: str) -> list[str]:
        return list(self.data.client_ids) if population == "train" else []


def train(
    process: Any,
    clients: "str | os.PathLike[str] | ClientStore | ClientData",
    workdir: str | os.PathLike[str],
    *,
    model: NextWordModel,
    rounds: int,
    clients_per_round: int,
    vocabulary: Vocabulary | None = None,
    validate: "ClientData | Validate | None" = None,
    feature: str = "text",
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    uses_no_other_text: bool = False,
    allow_tff_server: bool = False,
) -> Row:
    """Trains a learning process in a run directory, or resumes the training there.

        model = tk.models.build_model("cifg", vocabulary_size=10_000, seed=1)
        row = tk.training.train(
            process, "data/sms", "runs/mine", model=model, rounds=100, clients_per_round=50
        )

    Cohorts, checkpoints, exact resume, metrics, TensorBoard, validation, the best round and the
    saved model are as in `tff-keyboard train`, and `evaluate`, `compare`, `report`, `export` and
    `play` take the run directory. The process must be the same one on resume: nothing checks it,
    except for the structure of its state. The run makes no claim of privacy. A private process
    belongs into a config, as an own part (docs/own_parts.md).

    Args:
      process: A `tff.learning.templates.LearningProcess`. Its state and metrics can have any form;
        its model weights must fit `model`.
      clients: A client store, by its directory or opened: the process then takes the batches of
        `tk.data.batches_dataset`. Or `ClientData`, whose datasets are passed to the process as they
        are; they must be the same each time they are read.
      workdir: The run directory.
      model: Result of `tk.models.build_model`. It takes the weights for validation, has those of
        the best round at the end, and is saved in `workdir`.
      rounds: Total number of rounds.
      clients_per_round: Client updates of a round.
      vocabulary: The rows of the model, for `ClientData`. A store has its own.
      validate: `ClientData` of text (`feature`) whose clients are evaluated as by
        `tk.evaluation.evaluate_client_data`, or a function from `ModelWeights` to metrics with the
        name `train.best_metric` among them. None: the validation clients of the store.
      feature: Name of the feature with the text of a message in `validate`.
      tables: Keys of the tables [train], [client], [data] and [evaluation] of a config, such as
        `{"train": {"seed": 2}, "client": {"batch_size": 8}, "evaluation": {"every": 5}}`. Keys
        that describe the messages of a client (the table [client], `train.client_sampling` and
        `evaluation.clients`, for example) need a store, and are refused with `ClientData`.
      uses_no_other_text: Declares that the initial weights of `process` are random, and that no
        text of other clients than those of `clients` chooses or changes its weights. Otherwise the
        model has an unknown origin, and a private run that starts from it makes no claim.
      allow_tff_server: Whether a process that cannot run in this process runs in TFF's own server,
        which listens on all network interfaces, without a password.

    Returns:
      The last row of metrics.

    Raises:
      ConfigError: An argument or a key does not fit, or the process has another input.
      DataError: The store is damaged.
      RunDirectoryError: The directory is a run with other arguments, or is damaged.
      ProgramError: See `TrainingLoop.run`.
    """
    if uses_no_other_text and validate is not None:
        raise ConfigError("`uses_no_other_text` cannot be declared with `validate`.")
    source = _source(clients, vocabulary)
    config = _config(source, model, rounds, clients_per_round, tables or {})
    config = as_run(config, recorded_config(workdir))
    run_stores.check_best_metric(config)
    own_metrics.check(config.evaluation.metrics, source.vocabulary)
    evaluate = _evaluation(source, model, validate, feature, config)
    with run_stores.open_engine(config, [], allow_tff_server=allow_tff_server) as engine:
        # Before the run directory exists: the process may not fit.
        if isinstance(source, ClientStore):
            prepared = prepare_process(process, engine=engine, allow_tff_server=allow_tff_server)
            _check_input(prepared.packed)
            process, pop_aggregation_seconds = prepared.process, prepared.pop_aggregation_seconds
            cohorts = build.build_cohorts(config, source, num_parameters=model.count_params())
            round_input = functools.partial(cohorts.round_input, batcher=prepared.batcher)
        else:
            round_input = functools.partial(
                _of_client_data,
                source.data,
                CohortSampler(config.train, len(source.data.client_ids)),
                config.train.excluded_client,
            )
            pop_aggregation_seconds = _not_measured
        with open_run(
            workdir,
            config_lib.dump(config),
            config.aggregation.privacy,
            source,
            own_parts=own_part.sources_of(config),
            unknown_weights="" if uses_no_other_text else _UNKNOWN_WEIGHTS,
        ) as run:
            return train_run(
                run,
                source,
                model,
                dataclasses.replace(
                    build.build_run_settings(config), own_parts={"the process of the program": ""}
                ),
                process=process,
                round_input=round_input,
                evaluate=evaluate,
                pop_aggregation_seconds=pop_aggregation_seconds,
            )


def _not_measured() -> None:
    return None


def _source(clients: Any, vocabulary: Vocabulary | None) -> "ClientStore | _ClientsInMemory":
    """Returns the clients with their vocabulary: a store, or client data in memory."""
    if isinstance(clients, str | os.PathLike):
        clients = ClientStore(clients)
    if isinstance(clients, ClientStore):
        if vocabulary is not None and vocabulary != clients.vocabulary:
            raise ConfigError(f"`vocabulary` is not the vocabulary of {clients.directory}.")
        return clients
    if vocabulary is None:
        raise ConfigError("`vocabulary` is missing. Client data needs one, as the model has rows.")
    return _ClientsInMemory(clients, vocabulary)


def _config(
    source: "ClientStore | _ClientsInMemory",
    model: NextWordModel,
    rounds: int,
    clients_per_round: int,
    tables: Mapping[str, Mapping[str, Any]],
) -> RunConfig:
    """Returns the config that a run of a program records, from its arguments and `tables`."""
    for name in tables:
        if name not in _TABLES:
            raise ConfigError(
                f"`tables` has [{name}], which has no effect on a process of a program. Known: "
                f"{', '.join(_TABLES)}."
            )
        if isinstance(source, ClientStore):
            continue
        for key in tables[name]:
            if key in _NEED_A_STORE[name]:
                raise ConfigError(
                    f"`{name}.{key}` has no effect on `ClientData`: {_NEED_A_STORE[name][key]}. "
                    "Remove it from `tables`, or pass a client store as `clients`."
                )
    if model.vocabulary_size != len(source.vocabulary):
        raise ConfigError(
            f"The model has {model.vocabulary_size} output rows, but the vocabulary has "
            f"{len(source.vocabulary)}."
        )
    store = str(source.directory) if isinstance(source, ClientStore) else names.NO_STORE
    values: dict[str, dict[str, Any]] = {name: dict(tables.get(name, {})) for name in _TABLES}
    values["data"]["store"] = store
    values["client"]["type"] = "program"
    values["train"] |= {"rounds": rounds, "clients_per_round": clients_per_round}
    values["model"] = {"type": model.name_in_registry, **model.options}
    return config_lib.from_dict(values)


def _evaluation(
    source: "ClientStore | _ClientsInMemory",
    model: NextWordModel,
    validate: Any,
    feature: str,
    config: RunConfig,
) -> Callable[[int, Any], Mapping[str, float]]:
    """Returns the validation of a program's run: of a store, of client data, or a function."""
    metrics = own_metrics.build(config.evaluation.metrics)
    if validate is None:
        if not isinstance(source, ClientStore):
            raise ConfigError("`validate` is missing. Client data has no validation clients.")
        predictor = KerasPredictor(model, source.vocabulary)
        evaluate_on = validation.in_this_process(
            predictor, config.evaluation, config.data.max_length
        )
        return validation.Validation(source, None, evaluate_on, 1.0, [m.metric for m in metrics])
    if hasattr(validate, "create_tf_dataset_for_client"):

        def evaluate(round_num: int, weights: Any) -> Mapping[str, float]:
            weights.assign_weights_to(model)
            result = evaluate_client_data(
                model,
                source.vocabulary,
                validate,
                feature=feature,
                name=validation.POPULATION,
                max_length=config.data.max_length,
                metrics=metrics,
            )
            return federated_metrics(result.sums, [each.metric for each in metrics])

        return evaluate
    if metrics:
        raise ConfigError(
            "`evaluation.metrics` has no effect with a function as `validate`. Return the metrics "
            "from the function, or pass `ClientData`."
        )
    return lambda round_num, weights: validate(weights)


def _check_input(packed: Any) -> None:
    """Raises `ConfigError` unless the process takes the batches of a client store."""
    if packed is None:  # TFF's own server checks it
        return
    spec, ours = packed.element_spec, batches.ELEMENT_SPEC
    is_ours = elements.joined_spec(spec) == elements.joined_spec(ours)
    if not is_ours and not elements.is_joined(spec, batches.BATCH_SPEC):
        raise ConfigError(
            f"The process takes elements {spec}, but the batches of a client store are "
            f"{dict(ours)}. Pass `ClientData` with other elements as `clients`."
        )


def _of_client_data(
    data: ClientData, sampler: CohortSampler, excluded: int, round_num: int
) -> RoundInput:
    """Returns the datasets of a round's clients, and the facts for its metrics.

    `excluded` is the index of a client that takes part in no round, or -1.
    """
    cohort = sampler.cohort(round_num)
    names = [data.client_ids[index] for index in cohort.reporting if index != excluded]
    facts: Row = {
        "clients_selected": len(cohort.selected),
        "clients_dropped": len(cohort.dropped),
        "clients": len(names),
        "cohort": client_inputs.cohort_digest(names),
    }
    return RoundInput([data.create_tf_dataset_for_client(name) for name in names], facts)
