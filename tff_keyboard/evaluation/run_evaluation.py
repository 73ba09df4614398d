"""Evaluates a model on a text, or a finished run on clients that it was not trained on.

All tasks call `evaluate_named`, or `compare_models` for several models. `evaluate_run` opens a run
directory and its client store, and the general corpus of a fine-tuning run. `cached_evaluation`
evaluates once for each set of weights.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from tff_keyboard import config as config_lib
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.counts import predictor_evaluation, typed_text
from tff_keyboard.evaluation.counts.predictor_evaluation import Compute
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.metrics import own_metrics
from tff_keyboard.evaluation.metrics.own_metrics import CountedMetric
from tff_keyboard.evaluation.model_specs.named_predictor import (
    NamedPredictor,
    vocabulary_by_frequency,
)
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.result import (
    Evaluation,
    ModelFacts,
    OwnMetricFacts,
    TextFacts,
    read_json,
)
from tff_keyboard.evaluation.statistics.sums import Sums
from tff_keyboard.host.progress import Progress
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.storage import files, npz
from tff_keyboard.storage.errors import DataError, DivergedError, SavedModelError
from tff_keyboard.storage.run_directory import RunDirectory

_DIGEST_LETTERS = 12

# Maps a store and a population to the `Compute` of its text.
Elsewhere: TypeAlias = Callable[[ClientStore, str], Compute]


def evaluate_named(
    predictor: Predictor,
    model: ModelFacts,
    text: TypedText,
    *,
    max_length: int = 0,
    store: ClientStore | None = None,
    reference: Vocabulary | None = None,
    compute: Compute | None = None,
    metrics: Sequence[CountedMetric] = (),
) -> Evaluation:
    """Evaluates one model on one text, with a progress line. Completes the model's facts.

    `metrics` are metrics of the user. They are left out with `compute`, because a cluster's nodes
    do not have their code.

    Raises `DivergedError` if the model's predictions are not finite, and `ConfigError` if a metric
    of the user cannot be counted.
    """
    if compute is not None and metrics:
        names = ", ".join(each.metric.name for each in metrics)
        warnings.warn(
            f"Left out: {names}. The nodes of a cluster do not have the code of own metrics.",
            UserWarning,
            stacklevel=2,
        )
        metrics = ()
    start = time.perf_counter()
    with Progress(f"evaluate {model.name}", total=text.num_words, unit="words") as line:
        counts = predictor_evaluation.evaluate(
            predictor,
            text,
            max_length=max_length,
            reference=reference,
            progress=lambda done, total: line.update(text.num_words * done / total),
            compute=compute,
            metrics=metrics,
        )
    if not all(np.isfinite(values).all() for values in counts.sums.values()):
        raise DivergedError(
            f"{model.name}: the model's predictions are NaN, so its training has diverged. "
            "Train again with a lower client.learning_rate or server.learning_rate."
        )
    words = int(np.sum(counts.sums["tokens"] - counts.sums["eos_tokens"]))
    clients, order = _names_of_clients(text, store)
    return Evaluation(
        model=dataclasses.replace(
            model,
            vocabulary_rows=len(predictor.vocabulary),
            vocabulary_fingerprint=predictor.vocabulary.fingerprint,
        ),
        text=TextFacts(
            name=text.name,
            people=clients,
            words=words,
            words_left_out=text.num_words - words,
            max_length=max_length,
            pseudo_users=text.pseudo_users,
            store=store.card_hash if store else None,
            store_path=str(store.directory) if store else None,
        ),
        sums=_in_order(counts.sums, order),
        slices={
            family: {label: _in_order(sums, order) for label, sums in slices.items()}
            for family, slices in counts.slices.items()
        },
        seconds=time.perf_counter() - start,
        own_metrics={
            each.metric.name: OwnMetricFacts(
                label=each.metric.label,
                kind=each.metric.kind,
                better=each.metric.better,
                source=each.source,
            )
            for each in metrics
        },
    )


def _names_of_clients(
    text: TypedText, store: ClientStore | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns the names of the clients, and the order of their rows as positions in the text.

    Pseudonyms are sorted, because a list of ids in the order of a store would reveal them.
    """
    as_they_are = np.arange(len(text.clients))
    if text.pseudo_users:
        return text.clients, as_they_are  # blocks of lines in a file are not private
    if store is None:
        return tuple(map(str, as_they_are)), as_they_are
    names = list(map(store.pseudonym, text.clients))
    order = np.argsort(names, kind="stable")
    return tuple(names[row] for row in order), order


def _in_order(sums: Sums, order: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[order] for name, values in sums.items()}


def compare_models(
    models: Sequence[NamedPredictor],
    text: TypedText,
    *,
    store: ClientStore | None,
    compute: Compute | None = None,
    metrics: Sequence[CountedMetric] = (),
) -> Comparison:
    """Compares several models on one text with the first, also in `metrics` of the user.

    `store` is the store of the text, or the store that baselines were trained on. Its vocabulary
    orders words by frequency; without a store, the vocabulary of a model does.
    """
    reference = store.vocabulary if store is not None else vocabulary_by_frequency(models)
    evaluations = [
        evaluate_named(
            model.predictor,
            model.facts,
            text,
            store=store,
            reference=reference,
            compute=compute,
            metrics=metrics,
        )
        for model in models
    ]
    return Comparison(tuple(evaluations))


def evaluate_run(
    path: str | os.PathLike[str],
    population: str,
    *,
    store_path: str | os.PathLike[str] | None = None,
    max_length: int = 0,
    elsewhere: Elsewhere | None = None,
) -> Evaluation:
    """Evaluates a finished run on all clients of a population, also in the user's own metrics.

        evaluation = evaluate_run("runs/sms", "held_out")
        print(evaluation.metrics["recall_at_3_no_eos"].value)

    Args:
      path: Run directory.
      population: Population of the store.
      store_path: Client store; None uses the store in the run's config. With another store, a
        fine-tuning run is not evaluated on its general corpus.
      max_length: Maximum number of targets in a message; 0 means whole messages.
      elsewhere: Counts the text of a store's population; None counts it here.

    Raises:
      RunDirectoryError: If `path` is not a run directory.
      DataError: If the store has another vocabulary, or the population is empty.
      SavedModelError: If the run has no model yet, or a damaged one.
      ConfigError: If a metric of the user cannot be counted. One whose code is missing or not
        trusted is left out, with a warning.
    """
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard.predictors.keras_predictor import KerasPredictor

    run = RunDirectory.open(path)
    config = config_lib.load_of_run(run.config_path)
    predictor = KerasPredictor(*load_model(run.path))
    stores = [ClientStore(store_path or config.data.store)]
    if store_path is None and config.fine_tuning.general_store:
        stores.append(ClientStore(config.fine_tuning.general_store))
    for store in stores:
        if store.vocabulary != predictor.vocabulary:
            raise DataError(
                f"{store.directory} has a different vocabulary than {run.path}. Prepare it with "
                f"--set=data.vocabulary_path={run.vocabulary_path}."
            )
    metrics = own_metrics.build(config.evaluation.metrics)
    evaluations = [
        evaluate_named(
            predictor,
            ModelFacts(name=run.path.name, source=str(run.path)),
            typed_text.of_population(store, population),
            max_length=max_length,
            store=store,
            compute=elsewhere(store, population) if elsewhere else None,
            metrics=metrics,
        )
        for store in stores
    ]
    general = evaluations[1] if len(evaluations) > 1 else None
    return dataclasses.replace(evaluations[0], general=general)


def write_evaluation(path: pathlib.Path, evaluation: Evaluation) -> None:
    """Writes the file atomically."""
    content = json.dumps(evaluation.to_json(), indent=1, allow_nan=False)
    files.write_atomically(path, [content.encode()], mode=files.OWNER_ONLY)


def read_evaluation(path: pathlib.Path) -> Evaluation:
    """Reads a file that `write_evaluation` wrote.

        evaluation = read_evaluation(pathlib.Path("runs/sms/evaluation_held_out.json"))

    Args:
      path: File written by `tff-keyboard evaluate`.

    Raises:
      DataError: If it is not such a file.
    """
    return read_json(path, Evaluation.from_json, "evaluate")


def read_cached_evaluation(path: pathlib.Path) -> Evaluation | None:
    """Reads an evaluation; returns None if the file is missing or of another version."""
    try:
        return read_evaluation(path)
    except DataError:
        return None


def cached_evaluation(path: pathlib.Path, population: str) -> Evaluation:
    """Returns the result of `evaluate_run`, cached in the run directory by weights digest."""
    file = RunDirectory(path).evaluation_path(population, weights_digest(path))
    evaluation = read_cached_evaluation(file)
    if evaluation is None:
        evaluation = evaluate_run(path, population)
        write_evaluation(file, evaluation)
    return evaluation


def weights_digest(path: pathlib.Path) -> str:
    """Returns the digest of names and values in `model/weights.npz`, without the archive's dates.

    Raises `OSError` if the run has no weights yet, and `SavedModelError` if they are damaged.
    """
    checksum = hashlib.sha256()
    weights = RunDirectory(path).weights
    try:
        arrays = npz.read_arrays(weights)
    except npz.InvalidArchiveError as error:
        raise SavedModelError(
            f"{weights}: cannot be read: {error}. Run the command that saved the model again."
        ) from None
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        checksum.update(f"{name}{array.dtype.str}{array.shape}".encode())
        checksum.update(array.tobytes())
    return checksum.hexdigest()[:_DIGEST_LETTERS]
