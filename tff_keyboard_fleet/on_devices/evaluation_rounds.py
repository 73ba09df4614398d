"""Evaluates models on the text of devices: one round for each group of devices, without training.

    group g opens   devices check in, and fetch the models
    sums            each device sends its bounded sums (`wire/evaluation_sums.py`), masked with
                    `devices.secure_sums`
    noise           if configured, the server adds it to the sum of the group; the ledger's line and
                    the sums of the group are on disk
    released        the uploads are deleted, and group g + 1 opens

A device is in one group at most, so groups are independent, and the intervals of `compare` are over
groups. Rounds, seats, secure sums and their durability are those of a training: after a kill, the
same group has the same sum and the same noise. Neither models nor text of the server's store are
needed: this module needs no TFF.
"""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.result import Evaluation, ModelFacts, TextFacts
from tff_keyboard.host import progress
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.privacy.ledger.ledger import RUN_ID, PrivacyLedger, contents, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, EVALUATION, LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_content, noise_key
from tff_keyboard.privacy.mechanisms.noise_streams import NoiseOfRounds
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.storage import exclusive_file, files, in_progress, json_text, names
from tff_keyboard.storage.errors import ConfigError, ProgramError, RunDirectoryError, UsageError
from tff_keyboard.storage.run_directory import GROUPS_OF_DEVICES, RunDirectory
from tff_keyboard_fleet.on_devices import served_config
from tff_keyboard_fleet.on_devices.secure_grid import SecureGrid
from tff_keyboard_fleet.on_devices.served_files import (
    GRAPH,
    SERVER_KEY,
    TrainingGraphBuilder,
    graph_of_run,
    wire_order,
)
from tff_keyboard_fleet.round_server.app import Population, RoundApplication, delta_of
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import Round, RoundSettings
from tff_keyboard_fleet.round_server.secure_rounds import SecureRoundStore
from tff_keyboard_fleet.wire import evaluation_sums, keys, messages, secure_steps, weights
from tff_keyboard_fleet.wire import plan as plans
from tff_keyboard_fleet.wire.plan import Codec, Plan
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid

GROUPS = names.EVALUATED_GROUPS  # sums of each group, with noise if configured
SETTINGS = names.EVALUATION_ON_DEVICES  # of the start, which a resumed evaluation must have

Serve = Callable[[RoundApplication], contextlib.AbstractContextManager[None]]


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
class EvaluationSettings:
    """Settings of an evaluation on devices.

    Attributes:
      groups: Number of groups, >= 2. The report goal of a group is `train.clients_per_round`.
      max_words: Bound on a device's words and ends of messages (`Evaluation.max_words`).
      own_words: Weight of the user's own words in a second count of each model; 0: no second count.
      first_round: Number of the first group's round, above those of earlier evaluations of the
        population.
      noise_multiplier: Standard deviation of the noise in a group's sum, divided by the bound on
        the L2 norm of a device's vector; 0: no noise, and no ledger.
      delta: Delta of the guarantee.
      noise_secret: As `aggregation.privacy.noise_secret`.
    """

    groups: int
    max_words: int
    own_words: float = 0.0
    first_round: int = 1
    noise_multiplier: float = 0.0
    delta: float = 1e-6
    noise_secret: str = ""

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
    _check_folder(RunDirectory(workdir))
    files.make_directory(workdir)
    taken = ProgramError(f"{workdir}: another process uses it. Stop that process first.")
    with exclusive_file.held(
        workdir / names.LOCK,
        cannot=lambda why: ProgramError(f"{workdir}: cannot be used ({why})."),
        taken=taken,
    ):
        return _evaluate(config, RunDirectory(workdir), models, settings, serve, graph, clock)


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
    run_id = _open_settings(run.path / SETTINGS, plan, settings)
    round_settings = _round_settings(config, plan, settings)
    store_class = SecureRoundStore if round_settings.sums else RoundStore
    with contextlib.closing(store_class(folder, round_settings, clock)) as store:
        groups = _Groups(run, store, plan, settings, config, run_id)
        app = RoundApplication(
            store,
            blobs,
            Population(
                name=plan.population,
                run=store.run_id,
                parameters=evaluation.size,
                codec=plan.codec.name,
            ),
            keys.open_key(folder / SERVER_KEY),
            clock,
        )
        plan_name = blobs.keep(plan.to_bytes())
        for name in (*evaluation.models, graph_name, plan_name):
            blobs.show(name)
        groups.restart()
        with serve(app):
            while groups.number < settings.groups:
                groups.next(evaluation.models[0], plan_name)
        return _comparisons(models, groups.sums, plan)


class _Groups:
    """The groups of an evaluation, each with its sums on disk."""

    def __init__(
        self,
        run: RunDirectory,
        store: RoundStore,
        plan: Plan,
        settings: EvaluationSettings,
        config: RunConfig,
        run_id: str,
    ):
        assert plan.evaluation is not None
        self._path, self._store = run.path / GROUPS, store
        self._size, self._settings = plan.evaluation.size, settings
        self._lines = _read_groups(self._path, self._size)
        self._ledger: PrivacyLedger | None = None
        self._tags: list[str] = []
        self._tag_key = b""
        if settings.noise_multiplier:
            self._open_noise(run, plan, config, run_id)

    @property
    def number(self) -> int:
        """Number of complete groups."""
        return len(self._lines)

    @property
    def sums(self) -> np.ndarray:
        """The sums of the groups' vectors, [groups, size] float64, with noise if configured."""
        return np.array([line["vector"] for line in self._lines], np.float64)

    def restart(self) -> None:
        """Continues after the last complete group."""
        if self._ledger is not None:
            self._ledger.restart_after(self.number)
        self._store.restart_after(self._settings.first_round - 1 + self.number)

    def next(self, model: str, plan: str) -> None:
        """Opens the next group, waits for its devices, and writes its sums."""
        round_num = self._settings.first_round + self.number
        self._store.open_round(round_num, model, plan)
        round_ = self._store.wait_for_uploads(round_num)
        if round_ is None:
            raise ProgramError("The round server was stopped.")
        vector = self._with_noise(self._sum(round_))
        line = {"round": round_num, "devices": round_.accepted, "vector": vector.tolist()}
        files.append(self._path, json.dumps(line).encode() + b"\n", mode=files.OWNER_ONLY)
        self._lines.append(line)
        self._store.release(round_num)
        progress.step(f"group {self.number} of {self._settings.groups}: {round_.accepted} devices")

    def _sum(self, round_: Round) -> np.ndarray:
        """Returns the sum of the vectors of a group, [size] float64."""
        if isinstance(self._store, SecureRoundStore):
            return from_grid(self._store.total(round_), step=evaluation_sums.STEP)
        total = np.zeros(self._size)
        for upload in self._store.uploads(round_.number, round_.attempt):
            # A device without masks cannot exceed its bound.
            total += np.clip(delta_of(upload, self._size), 0.0, 1.0).astype(np.float64)
        return total

    def _with_noise(self, total: np.ndarray) -> np.ndarray:
        """Returns the sum of a group with its noise, after the ledger has recorded its cost."""
        if self._ledger is None:
            return total
        digest = hashlib.sha256(np.ascontiguousarray(total).tobytes()).digest()
        tags = [*self._tags[: self.number]]
        tags.append(noise_content.next_tag(self._tag_key, tags, digest))
        self._ledger.record(self.number + 1, content=tags[-1])
        self._tags = tags
        stddev = self._settings.noise_multiplier * evaluation_sums.clip_norm(self._size)
        return total + stddev * self._noise(self.number, tags)

    def _open_noise(self, run: RunDirectory, plan: Plan, config: RunConfig, run_id: str) -> None:
        """Opens the noise key and the ledger. An evaluation that goes on must have its ledger."""
        path, settings = run.privacy_ledger, self._settings
        if path.exists():
            self._tags = list(contents(read_ledger(path)[1]))
        elif self.number:
            raise RunDirectoryError(
                f"{path} is missing, but groups were released with noise. Restore the file, or "
                "start a new folder."
            )
        mechanism = Gaussian()
        noise = noise_key.open_noise_key(
            run.noise_nonce,
            {"plan": json_text.parse(plan.to_bytes()), "settings": _recorded(plan, settings)},
            may_draw=not path.exists(),
            secret=settings.noise_secret,
        )
        self._tag_key = noise.tag_key
        self._noise: NoiseOfRounds = mechanism.keyed_noise(noise.key)(self._size)
        header = LedgerHeader(
            mechanism=mechanism,
            aggregator=EVALUATION,
            noise_multiplier=settings.noise_multiplier,
            clip_norm=evaluation_sums.clip_norm(self._size),
            delta=settings.delta,
            population=0,
            clients_per_round=config.train.clients_per_round,
            selected_per_round=config.train.selected_per_round,
            sampling=CHECK_IN,
            uniform_sampling=False,
            secret_cohorts=True,
            min_separation_rounds=plan.min_separation_rounds,
            noise_source=noise.source,
            key_id=noise.key_id,
            run_id=run_id,
            secure_sums=plan.secure_sums is not None,
        )
        self._ledger = PrivacyLedger(path, header)


def _check_folder(run: RunDirectory) -> None:
    """Checks, before anything is written, that a folder is new or one of an evaluation.

    The ledger of an evaluation in the directory of a training would be taken for that of the model.
    """
    if not run.path.is_dir():
        return
    before_settings = {names.LOCK, names.ROUND_SERVER, names.NOISE_NONCE}
    file_names = {
        path.name for path in run.path.iterdir() if not in_progress.is_leftover_name(path.name)
    } - before_settings
    is_evaluation = SETTINGS in file_names and not file_names & {names.CONFIG, names.MODEL}
    if file_names and not is_evaluation:
        raise RunDirectoryError(
            f"{run.path}: is not the folder of an evaluation. Pass a new folder as --workdir."
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


def _round_settings(config: RunConfig, plan: Plan, settings: EvaluationSettings) -> RoundSettings:
    sums = plan.secure_sums
    return RoundSettings(
        goal=config.train.clients_per_round,
        max_seats=config.train.selected_per_round,
        min_reports=served_config.min_reports_of(config),
        deadline_seconds=config.devices.deadline_seconds,
        separation=settings.groups,
        sums=secure_steps.settings(sums, plan.upload_size) if sums else None,
    )


def _recorded(plan: Plan, settings: EvaluationSettings) -> dict[str, Any]:
    return {**dataclasses.asdict(settings), "plan": plan.sha256}


def _open_settings(path: pathlib.Path, plan: Plan, settings: EvaluationSettings) -> str:
    """Writes the settings and a random id at the first start, and compares the settings later.

    Returns the id, which is also in the ledger (`ledger.check_is_of_run`).
    """
    recorded = _recorded(plan, settings)
    if not path.exists():
        run_id = secrets.token_hex(16)
        content = json.dumps({RUN_ID: run_id, **recorded}, indent=1)
        files.write_atomically(path, [content.encode()])
        return run_id
    on_disk = files.read_json(path)
    if not isinstance(on_disk, dict):
        raise files.damaged(path, "it is not an object")
    changed = [name for name in recorded if on_disk.get(name) != recorded[name]]
    if changed:
        raise RunDirectoryError(
            f"{path}: was started with another value of {', '.join(changed)}. Use the models, the "
            "config and the flags of the first start, or a new folder."
        )
    id_on_disk = on_disk.get(RUN_ID)
    if not isinstance(id_on_disk, str) or not id_on_disk:
        raise files.damaged(path, "it has no id")
    return id_on_disk


def _read_groups(path: pathlib.Path, size: int) -> list[dict[str, Any]]:
    """Returns the lines of the file. Cuts off a line that a crash left incomplete."""
    if not path.exists():
        return []
    data = files.read_bytes(path)
    complete = data[: data.rfind(b"\n") + 1]
    lines = []
    for number, text in enumerate(complete.splitlines(), 1):
        try:
            line = json_text.parse(text)
            vector = np.array(line["vector"], np.float64)
            is_sound = vector.shape == (size,) and bool(np.isfinite(vector).all())
        except (ValueError, KeyError, TypeError):
            is_sound = False
        if not is_sound:
            raise RunDirectoryError(
                f"{path}, line {number}: is damaged. Restore the file from a copy, or start a new "
                "folder."
            )
        lines.append(line)
    if complete != data:
        files.write_atomically(path, [complete], mode=files.OWNER_ONLY)
    return lines


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
