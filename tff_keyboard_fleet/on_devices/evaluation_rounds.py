"""Evaluates models on the text of devices: one round for each group of devices, without training.

The rounds are those of `summed_rounds.py`: each device sends its bounded sums
(`wire/evaluation_sums.py`) once. Groups of devices are independent, and the intervals of `compare`
are over groups. Neither models nor text of the server's store are needed: this module needs no TFF.
"""

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts, TextFacts
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.privacy.ledger.ledger_header import EVALUATION
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import ConfigError, UsageError
from tff_keyboard.storage.run_directory import GROUPS_OF_DEVICES, RunDirectory
from tff_keyboard_fleet.on_devices import served_config
from tff_keyboard_fleet.on_devices.secure_grid import SecureGrid
from tff_keyboard_fleet.on_devices.served_files import (
    GRAPH,
    TrainingGraphBuilder,
    graph_of_run,
    wire_order,
)
from tff_keyboard_fleet.on_devices.summed_rounds import (
    Facts,
    Serve,
    SummedRounds,
    SumSettings,
    Vectors,
    held_folder,
    open_settings,
)
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.wire import evaluation_sums, messages, weights
from tff_keyboard_fleet.wire import plan as plans
from tff_keyboard_fleet.wire.plan import Codec, Plan

SETTINGS = names.EVALUATION_ON_DEVICES  # of the start, which a resumed evaluation must have


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatedModel:
    """A model and its origin.

    Attributes:
      name: Name in the table.
      directory: Run directory, or folder of the model.
      model: The model.
      vocabulary: Its words.
    """

    name: str
    directory: pathlib.Path
    model: NextWordModel
    vocabulary: Vocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings(SumSettings):
    """Settings of an evaluation on devices: at least two `groups`, all of which take part.

    Attributes:
      max_words: Bound on a device's words and ends of messages (`Evaluation.max_words`).
      own_words: Weight of the user's own words in a second count of each model; 0: no second count.
    """

    max_words: int
    own_words: float = 0.0

    def __post_init__(self) -> None:
        if not 2 <= self.groups <= plans.MAX_SEPARATION:
            raise UsageError(
                f"--groups must be in 2..{plans.MAX_SEPARATION}, got {self.groups}: an interval "
                "needs at least two groups."
            )


def evaluate_on_devices(
    config: RunConfig,
    workdir: pathlib.Path,
    models: Sequence[EvaluatedModel],
    settings: EvaluationSettings,
    *,
    serve: Serve,
    graph: TrainingGraphBuilder,
    clock: Callable[[], float] = time.time,
) -> list[Comparison]:
    """Evaluates models on devices. Called again with the same arguments, it resumes.

    Args:
      config: `[devices]`, the report goal and over-selection of `[train]`, and `data.max_length`.
      workdir: Folder of the evaluation, new or of the same evaluation.
      models: One or more models with one vocabulary and the same shapes. The others are compared
        with the first.
      settings: The settings.
      serve: Serves the application until the last group is complete.
      graph: Builds the file that devices run.
      clock: Returns seconds since 1970.

    Returns:
      The comparison of the models without own words, and then, if `settings.own_words`, with them.

    Raises:
      ConfigError, UsageError: If the models or the config do not fit.
      RunDirectoryError: If the folder has another evaluation, or is damaged.
      ProgramError: If a file cannot be written, or the server was stopped.
    """
    _check_models(models)
    if config.devices.secure_sums:
        served_config.check_sums_of_devices(config)
    with held_folder(workdir, SETTINGS, "an evaluation") as run:
        return _evaluate(config, run, models, settings, serve, graph, clock)


def _evaluate(
    config: RunConfig,
    run: RunDirectory,
    models: Sequence[EvaluatedModel],
    settings: EvaluationSettings,
    serve: Serve,
    graph: TrainingGraphBuilder,
    clock: Callable[[], float],
) -> list[Comparison]:
    """Evaluates the models in one round for each group of devices, which join through `serve`.

    Returns a comparison without own words, and one with own words if the settings ask for them. A
    folder that was left unfinished is continued.
    """
    folder, first = run.round_server, models[0]
    files.make_directory(folder, mode=0o700, is_part=True)
    blobs = Blobs(folder / "blobs")
    graph_name = blobs.keep(
        graph_of_run(graph, folder / GRAPH, first.directory, first.model, first.vocabulary)
    )
    rows = list(graph.rows(first.vocabulary))
    vectors = [_vector(model.model, rows) for model in models]
    plan = _plan(
        config,
        settings,
        models=[blobs.keep(weights.to_bytes(vector)) for vector in vectors],
        parameters=vectors[0].size,
        graph=graph_name,
        vocabulary=Vocabulary(
            [first.vocabulary.words[row] for row in rows], first.vocabulary.rules
        ).fingerprint,
    )
    evaluation = plan.evaluation
    assert evaluation is not None
    recorded = {**dataclasses.asdict(settings), "plan": plan.sha256}
    rounds = SummedRounds(
        config,
        run,
        plan,
        settings,
        _vectors(evaluation.size),
        recorded=recorded,
        run_id=open_settings(run.path / SETTINGS, recorded),
        blobs=blobs,
        clock=clock,
    )
    with contextlib.closing(rounds):
        for name in (*evaluation.models, graph_name):
            blobs.show(name)
        rounds.publish(plan)
        rounds.restart()
        with serve(rounds.app):
            while rounds.number < settings.groups:
                rounds.next(evaluation.models[0], plan)
        vectors_of_groups = np.array([line["vector"] for line in rounds.results], np.float64)
        return _comparisons(models, vectors_of_groups, plan)


def _vectors(size: int) -> Vectors:
    """Returns the facts about vectors of evaluation sums. The result of a group is its sum."""

    def is_sound(line: Facts) -> bool:
        vector = np.array(line["vector"], np.float64)
        return vector.shape == (size,) and bool(np.isfinite(vector).all())

    return Vectors(
        clip_norm=evaluation_sums.clip_norm(size),
        step=evaluation_sums.STEP,
        aggregator=EVALUATION,
        result_of=lambda total: {"vector": total.tolist()},
        is_sound=is_sound,
    )


def _check_models(models: Sequence[EvaluatedModel]) -> None:
    """Raises an error unless the models can run in one graph: same vocabulary and sizes."""
    if not 1 <= len(models) <= plans.MAX_EVALUATED_MODELS:
        raise UsageError(f"Pass 1 to {plans.MAX_EVALUATED_MODELS} models, got {len(models)}.")
    first = models[0]
    shapes = {name: value.shape for name, value in weights_by_name(first.model).items()}
    for model in models[1:]:
        if model.vocabulary.fingerprint != first.vocabulary.fingerprint:
            raise ConfigError(
                f"{model.directory} has another vocabulary than {first.directory}: devices run one "
                "graph with both weights. Compare models with one vocabulary."
            )
        if {name: value.shape for name, value in weights_by_name(model.model).items()} != shapes:
            raise ConfigError(
                f"{model.directory} has other sizes than {first.directory}: devices run one graph "
                "with both weights. Compare models of one size."
            )


def _vector(model: NextWordModel, rows: Sequence[int]) -> np.ndarray:
    """Returns the weights of a model in the order of the graph, [parameters] float32."""
    values = weights_by_name(model)
    order = wire_order({name: value.shape for name, value in values.items()}, rows)
    return weights.to_vector(list(values.values()))[order]


def _plan(
    config: RunConfig,
    settings: EvaluationSettings,
    *,
    models: list[str],
    parameters: int,
    graph: str,
    vocabulary: str,
) -> Plan:
    """Returns the plan of the evaluation, given the names of its blobs.

    Args:
      config: The config of the devices' rounds.
      settings: Limits of words, and the number of groups.
      models: Digests of the models' weights.
      parameters: Numbers in one model.
      graph: Digest of the graph.
      vocabulary: Fingerprint of the vocabulary.
    """
    evaluation = plans.Evaluation(
        models=models, max_words=settings.max_words, own_words=settings.own_words
    )
    try:
        evaluation.check()
    except ValueError as error:
        raise UsageError(f"{error}. The values come from the models and the flags.") from None
    secure_sums = None
    if config.devices.secure_sums:
        grid = SecureGrid(
            evaluation_sums.clip_norm(evaluation.size), evaluation_sums.STEP, evaluation_sums.BITS
        )
        secure_sums = served_config.sums_on_grid(config, grid)
    return Plan(
        population=config.devices.population,
        vocabulary=vocabulary,
        graph=graph,
        parameters=parameters,
        learning_rate=0.0,
        epochs=1,
        max_messages=0,
        max_targets=config.data.max_length,
        weighting="uniform",
        clip=None,
        codec=Codec(name=messages.MASKED if secure_sums else messages.RAW),
        phases=["upload"],
        secure_sums=secure_sums,
        conditions=served_config.conditions_of(config.devices),
        cache=served_config.cache_of(config.devices),
        min_separation_rounds=settings.groups,
        evaluation=evaluation,
    )


def _comparisons(
    models: Sequence[EvaluatedModel], vectors: np.ndarray, plan: Plan
) -> list[Comparison]:
    """Returns the comparison of the models, and a second one with own words if there are such sums.

    `vectors` are the sums of each group, [groups, size].
    """
    evaluation = plan.evaluation
    assert evaluation is not None
    has_own_words = evaluation.own_words > 0
    sums = evaluation_sums.from_vectors(vectors, len(models), has_own_words, evaluation.max_words)
    words = sums[0][0]["tokens"] - sums[0][0]["eos_tokens"]
    text = TextFacts(
        name=plan.population,
        people=tuple(f"group {number + 1}" for number in range(len(vectors))),
        words=round(float(words.sum())),
        max_length=plan.max_targets,
        unit=GROUPS_OF_DEVICES,
    )
    return [
        Comparison(
            tuple(
                Evaluation(
                    model=ModelFacts(
                        name=one.name + (", own words" if variant else ""),
                        kind="tflite",
                        source=str(one.directory),
                        vocabulary_rows=len(one.vocabulary),
                        vocabulary_fingerprint=one.vocabulary.fingerprint,
                    ),
                    text=text,
                    sums=of_model[variant],
                )
                for one, of_model in zip(models, sums, strict=True)
            )
        )
        for variant in range(1 + has_own_words)
    ]
