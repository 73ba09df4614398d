"""One training in a run directory: rounds, checkpoints, metrics, progress, and the saved model.

The differences between federated and central training are arguments: the process, the data of a
round, the validation, hooks. All other parts are here once, so both kinds of run are resumed,
reported and read in the same way.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.rounds.averaged import IterateWeights
from tff_keyboard.algorithms.rounds.round_process import RoundInput, RoundProcess
from tff_keyboard.config.resume_policy import MAY_CHANGE
from tff_keyboard.config.sections.train_config import OwnMetric, TrainConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.saved_model import save_model
from tff_keyboard.parts.privacy_mechanism import MechanismConfig, PrivacyOptions
from tff_keyboard.privacy.ledger import client_digests, lineage
from tff_keyboard.privacy.ledger.origin import id_of_run
from tff_keyboard.storage import files, metrics_rows, names, toml
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.loop import (
    best_round,
    checkpoints,
    release,
    round_clock,
    training_loop,
    withheld,
)
from tff_keyboard.training.round_lines import RoundLines, closing_lines

LAST = "last"  # prefix of metrics of the last model, if validation is of the average


class RecordedClients(Protocol):
    """The clients of a run, as its directory records them. A `ClientStore` is one."""

    @property
    def card(self) -> Mapping[str, Any]:
        """Their description, JSON values."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The rows of the model."""

    @property
    def vocabulary_text(self) -> str:
        """The file of the vocabulary."""

    @property
    def truecase(self) -> Sequence[str]:
        """Forms of words with capitals."""

    def client_ids(self, population: str) -> list[str]:
        """Returns the ids of the clients of a population."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The part of a config that `train_run` needs.

    Attributes:
      train: The table `[train]`.
      evaluate_every: Rounds between validations, >= 1.
      is_private: Whether metrics that come directly from the clients' text are withheld.
      evaluate_start: Whether the model before the first round is validated, too. It is then saved
        if no round is better.
      own_metrics: The tables `evaluation.metrics`.
      own_parts: Key -> reference of the user's own parts that a round runs, for errors. A key with
        the reference "" is the name of a part that no config has.
    """

    train: TrainConfig
    evaluate_every: int
    is_private: bool
    evaluate_start: bool = False
    own_metrics: Mapping[str, OwnMetric] = dataclasses.field(default_factory=dict)
    own_parts: Mapping[str, str] = dataclasses.field(default_factory=dict)


def recorded_config(workdir: str | os.PathLike[str]) -> str | None:
    """Returns the TOML that a run at `workdir` recorded when it began; None if there is none."""
    run = RunDirectory(workdir)
    return run.config_text() if run.exists() else None


def open_run(
    workdir: str | os.PathLike[str],
    config_text: str,
    privacy: PrivacyOptions,
    store: RecordedClients,
    general_store: ClientStore | None = None,
    *,
    own_parts: Mapping[str, Any],
    unknown_weights: str = "",
    changes_client_work: bool = False,
    trains_on_store: bool = True,
) -> RunDirectory:
    """Opens a new run directory, or resumes one. It is locked until it is closed.

    The directory keeps digests of the clients of training, also of `general_store`: a later run
    that starts from this run's model compares them with its own clients. Digests of `general_store`
    are also kept separately, because nothing limits the number of their rehearsals. So are digests
    of the clients of validation, whose text chooses the model. If the text is on devices
    (`trains_on_store` = False), the clients are unknown, and there are no digests. The secret of
    `privacy` salts the digests. `own_parts` is recorded, see `RunDirectory.create`, and so is
    `unknown_weights`, see `lineage.ancestors`, and `changes_client_work`, see `origin.Origin`.

    Raises:
      RunDirectoryError: If the directory is a run with the other kind of clients, or a private run
        that would continue without noise, and as `RunDirectory.create`.
    """
    if not isinstance(privacy, MechanismConfig):
        check_is_not_private(RunDirectory(workdir))
    _check_kind_of_clients(RunDirectory(workdir), trains_on_store=trains_on_store)
    run = RunDirectory.create(
        workdir,
        config_text=config_text,
        data_card_text=json.dumps(store.card, indent=2, sort_keys=True) + "\n",
        vocabulary_text=store.vocabulary_text,
        own_parts=own_parts,
        truecase_text="".join(f"{form}\n" for form in store.truecase),
        may_change=MAY_CHANGE,
        of_this_version=config_lib.of_this_version,
    )
    try:
        lineage.record_origin(run, unknown_weights, changes_client_work=changes_client_work)
    except BaseException:
        run.close()
        raise
    if trains_on_store and not (run.client_digests.exists() and run.has_begun):
        secret = privacy.noise_secret if isinstance(privacy, MechanismConfig) else ""
        client_ids, validation_ids = store.client_ids("train"), store.client_ids("validation")
        if general_store is not None:
            validation_ids += general_store.client_ids("validation")
            rehearsed = general_store.client_ids("train")
            client_digests.write(
                run.rehearsed_client_digests, client_digests.salted(rehearsed, secret)
            )
            client_ids = [*client_ids, *rehearsed]
        client_digests.write(
            run.validation_client_digests, client_digests.salted(validation_ids, secret)
        )
        client_digests.write(run.client_digests, client_digests.salted(client_ids, secret))
    return run


def check_is_not_private(run: RunDirectory) -> None:
    """Checks that training without noise may use a run directory.

    Raises `RunDirectoryError` if it is a private run.
    """
    if run.privacy_ledger.exists() or run.noise_nonce.exists():
        raise RunDirectoryError(
            f"{run.path} is a private run. This training has no noise, so the privacy statement of "
            "the directory would be false. Use another run directory."
        )


def _check_kind_of_clients(run: RunDirectory, *, trains_on_store: bool) -> None:
    """Checks that a run stays with the clients of the store, or with devices.

    The record of the run's clients would otherwise be about a part of them.
    """
    if trains_on_store and run.round_server.exists():
        raise RunDirectoryError(
            f"{run.path} is a run of `serve-rounds`, whose clients are devices. Continue it with "
            "`serve-rounds`, or use another directory to train on the clients of the store."
        )
    if not trains_on_store and run.client_digests.exists() and run.has_begun:
        raise RunDirectoryError(
            f"{run.path} is a run on the clients of a store, which `serve-rounds` cannot continue. "
            "Use another directory, and set `model.initial_model` to start from its model."
        )


def of_both(
    evaluate: Callable[[int, Any], Mapping[str, Any]],
) -> Callable[[int, Any], Mapping[str, Any]]:
    """Returns an `evaluate` that also takes two models: the average, and the last as `last/...`."""

    def evaluate_both(round_num: int, weights: Any) -> Mapping[str, Any]:
        if not isinstance(weights, IterateWeights):
            return evaluate(round_num, weights)
        last = evaluate(round_num, weights.last)
        return {
            **evaluate(round_num, weights.average),
            **{f"{LAST}/{name}": value for name, value in last.items()},
        }

    return evaluate_both


def train_run(
    run: RunDirectory,
    store: RecordedClients,
    model: NextWordModel,
    settings: RunSettings,
    *,
    process: RoundProcess,
    round_input: Callable[[int], RoundInput],
    evaluate: Callable[[int, Any], Mapping[str, Any]],
    hooks: Sequence[training_loop.Hook] = (),
    pop_aggregation_seconds: Callable[[], float | None] = lambda: None,
    around_lines: Callable[[RoundLines], Callable[[training_loop.RoundProgress], None]]
    | None = None,
) -> Row:
    """Trains up to `train.rounds`, from the last checkpoint of `run`, and saves the model.

    Args:
      run: The open run directory.
      store: The client store.
      model: Takes the weights of the best or the last round, and is saved.
      settings: The values of the config, see `build.build_run_settings`.
      process: The trained process, with all that is wrapped around it (`round_process.chain`).
      round_input: Returns the clients' data of a round >= 1, and facts for the row of metrics.
      evaluate: Returns validation metrics of a round and model weights.
      hooks: Get each round before its release.
      pop_aggregation_seconds: Returns the seconds of aggregation since the last call, or None.
      around_lines: Wraps the printed lines.

    Returns:
      The last row of metrics, as in `metrics.jsonl`.

    Raises:
      ProgramError: See `TrainingLoop.run`.
    """
    train, is_private = settings.train, settings.is_private
    # The duration of a round reveals facts about its clients.
    mode = files.OWNER_ONLY if is_private else files.ANYONE
    metrics = release.MetricsRelease(run.metrics_jsonl, run.metrics_csv)
    managers: list[release.RoundReleaseManager] = [
        metrics,
        release.TensorBoardRelease(run.tensorboard, mode=mode),
    ]
    lines = RoundLines(train.rounds, show_training=not is_private, own_metrics=settings.own_metrics)
    if is_private:
        managers = [
            withheld.WithholdingRelease(
                run.withheld_jsonl, managers, has_own_code=bool(run.own_parts())
            )
        ]
    result = training_loop.TrainingLoop(
        process=process,
        cohort_source=round_input,
        total_rounds=train.rounds,
        checkpoint_manager=checkpoints.CheckpointManager(
            run.checkpoints, train.keep_checkpoints, id_of_run(run)
        ),
        release_managers=managers,
        timings_manager=release.TimingsRelease(
            run.timings_csv, round_clock.TIMING_COLUMNS, mode=mode
        ),
        evaluate=of_both(evaluate),
        evaluate_every=settings.evaluate_every,
        evaluate_start=settings.evaluate_start,
        best_metric=best_round.BestMetric.of_config(train, settings.own_metrics),
        checkpoint_every=train.checkpoint_every,
        max_rejected_in_a_row=train.max_rejected_rounds,
        hooks=hooks,
        progress=around_lines(lines) if around_lines else lines,
        show_start=lines.show_start,
        pop_aggregation_seconds=pop_aggregation_seconds,
        own_parts=settings.own_parts,
        is_private=is_private,
    ).train()
    last_row = metrics.rows()[-1]
    rounds = metrics_rows.round_of(last_row)
    is_best = train.final_model == "best"
    save = functools.partial(
        save_model,
        rounds=rounds,
        has_stopped_early=bool(result.stop_reason),
        run_id=id_of_run(run),
        is_private=is_private,
        continues_private_run=lineage.continues_private_run(run),
    )
    weights = result.best_model_weights if is_best else result.model_weights
    if isinstance(weights, IterateWeights):
        weights.last.assign_weights_to(model)
        save(run.last_model, model, store.vocabulary)
        weights = weights.average
    weights.assign_weights_to(model)
    is_start = is_best and result.loop_state.keeps_start
    save(run.model, model, store.vocabulary, is_start=is_start)
    directory = toml.parse(run.config_text()).get("data", {}).get("store")
    next_task = "report" if directory == names.NO_STORE else "evaluate"
    for line in closing_lines(result, run, is_best=is_best, next_task=next_task):
        print(line)
    return last_row
