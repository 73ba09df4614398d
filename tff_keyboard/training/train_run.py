"""One training in a run directory: rounds, checkpoints, metrics, progress, the model it leaves.

What differs between federated and central training comes as arguments: the process, the data of a
round, the validation, hooks. All else is here once, so a run of either kind resumes, reports and is
read alike.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tff_keyboard import config as config_lib
from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.kept_keys import MAY_CHANGE
from tff_keyboard.config.sections.averaging_config import NoAverage
from tff_keyboard.config.sections.privacy_config import MechanismConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.saved_model import save_model
from tff_keyboard.privacy.ledger import people
from tff_keyboard.privacy.ledger.released_metrics import is_public
from tff_keyboard.program.rounds import (
    best_round,
    checkpoints,
    read_ahead,
    release,
    round_clock,
    training_loop,
    withheld,
)
from tff_keyboard.program.rounds.averaged_process import AveragedProcess, IterateWeights
from tff_keyboard.program.rounds.round_process import RoundProcess
from tff_keyboard.storage import files, metrics_rows, names
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.round_lines import RoundLines, closing_lines

LAST = "last"  # of names of metrics: of the last model, where validation is of the average


def check_best_metric(config: RunConfig, known: Sequence[str]) -> None:
    """Raises `ConfigError` unless `train.best_metric` is one of the known names.

    With `averaging` they are those of the average; `last/...` are those of the last model.
    """
    if not isinstance(config.averaging, NoAverage):
        known = [*known, *(f"{LAST}/{name}" for name in known)]
    if config.train.best_metric not in known:
        raise ConfigError(
            f"`train.best_metric` must be one of {', '.join(known)}; "
            f"got {config.train.best_metric!r}."
        )


def recorded_config(workdir: str | os.PathLike[str]) -> str | None:
    """The TOML that a run at `workdir` recorded when it began; None: there is none."""
    run = RunDirectory(workdir)
    return run.config_text() if run.exists() else None


def open_run(
    config: RunConfig,
    workdir: str | os.PathLike[str],
    store: ClientStore,
    general_store: ClientStore | None = None,
    *,
    trains_on_store: bool = True,
) -> RunDirectory:
    """A new run directory, or one to go on with; locked until it is closed.

    It keeps digests of the people whose text will be trained on, that of `general_store` included:
    a later run that starts from this one's model compares them with its own. Those of
    `general_store` are kept for themselves, too: nothing bounds how often one of them is rehearsed.
    Where the text is that of devices (`trains_on_store` = False), nobody knows these people, and
    there are no digests.
    """
    run = RunDirectory.create(
        workdir,
        config_text=config_lib.dump(config),
        data_card_text=json.dumps(store.card, indent=2, sort_keys=True) + "\n",
        vocabulary_text=(store.directory / names.VOCABULARY).read_text(encoding="utf-8"),
        truecase_text="".join(f"{form}\n" for form in store.truecase),
        may_change=MAY_CHANGE,
        of_this_version=config_lib.of_this_version,
    )
    if trains_on_store and not run.people.exists():
        privacy = config.aggregation.privacy
        secret = privacy.noise_secret if isinstance(privacy, MechanismConfig) else ""
        client_ids = store.client_ids("train")
        if general_store is not None:
            rehearsed = general_store.client_ids("train")
            people.write(run.rehearsed_people, people.salted(rehearsed, secret))
            client_ids = [*client_ids, *rehearsed]
        people.write(run.people, people.salted(client_ids, secret))
    return run


def of_both(
    evaluate: Callable[[int, Any], Mapping[str, Any]],
) -> Callable[[int, IterateWeights], Row]:
    """Metrics of the average under their names, those of the last model as `last/<name>`."""

    def evaluate_both(round_num: int, weights: IterateWeights) -> Row:
        last = evaluate(round_num, weights.last)
        return {
            **evaluate(round_num, weights.average),
            **{f"{LAST}/{name}": value for name, value in last.items()},
        }

    return evaluate_both


def train_run(
    config: RunConfig,
    run: RunDirectory,
    store: ClientStore,
    model: NextWordModel,
    *,
    process: RoundProcess,
    round_input: Callable[[int], tuple[Any, Mapping[str, Any]]],
    evaluate: Callable[[int, Any], Mapping[str, Any]],
    hooks: Sequence[training_loop.Hook] = (),
    pop_aggregation_seconds: Callable[[], float | None] = lambda: None,
    around_lines: Callable[[RoundLines], Callable[[training_loop.Progress], None]] | None = None,
) -> Row:
    """Trains up to `train.rounds`, from the last checkpoint of `run`, and saves the model.

    `model` takes the weights of the best or the last round, and is saved. `process` is what is
    trained; with `averaging`, the average of its models is kept here. `round_input` makes of a
    round >= 1 what the clients train on, and facts for the row of metrics; `evaluate` metrics of
    validation of a round and model weights. Returns the last row of metrics, as in `metrics.jsonl`;
    raises as `TrainingLoop.run` does.
    """
    train = config.train
    if not isinstance(config.averaging, NoAverage):
        process = AveragedProcess(process, config.averaging)
        evaluate = of_both(evaluate)
    is_private = config.aggregation.is_private
    # How long a round takes tells of who is in it.
    mode = files.OWNER_ONLY if is_private else files.ANYONE
    metrics = release.MetricsRelease(run.metrics_jsonl, run.metrics_csv)
    managers: list[release.RoundReleaseManager] = [
        metrics,
        release.TensorBoardRelease(run.tensorboard, mode=mode),
    ]
    lines = RoundLines(train.rounds, show_training=not is_private)
    if is_private:
        managers = [withheld.WithholdingRelease(run.withheld_jsonl, is_public, managers)]
    result = training_loop.TrainingLoop(
        process=process,
        cohort_source=lambda round_num: read_ahead.RoundInput(*round_input(round_num)),
        total_rounds=train.rounds,
        checkpoint_manager=checkpoints.CheckpointManager(run.checkpoints, train.keep_checkpoints),
        release_managers=managers,
        timings_manager=release.TimingsRelease(
            run.timings_csv, round_clock.TIMING_COLUMNS, mode=mode
        ),
        evaluate=evaluate,
        evaluate_every=config.evaluation.every,
        best_metric=best_round.BestMetric.of_config(train),
        checkpoint_every=train.checkpoint_every,
        max_rejected_in_a_row=train.max_rejected_rounds,
        hooks=hooks,
        progress=around_lines(lines) if around_lines else lines,
        pop_aggregation_seconds=pop_aggregation_seconds,
    ).train()
    last_row = metrics.rows()[-1]
    rounds = metrics_rows.round_of(last_row)
    is_best = train.final_model == "best"
    weights = result.best_model_weights if is_best else result.model_weights
    if isinstance(weights, IterateWeights):
        weights.last.assign_weights_to(model)
        save_model(run.last_model, model, store.vocabulary, rounds=rounds)
        weights = weights.average
    weights.assign_weights_to(model)
    save_model(run.model, model, store.vocabulary, rounds=rounds)
    for line in closing_lines(result, run, is_best=is_best):
        print(line)
    return last_row
