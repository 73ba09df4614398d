"""Trains the same model centrally, on the pooled text of all train clients: the twin to beat.

tff-keyboard train-server --like=runs/sms --workdir=runs/sms_server
tff-keyboard train-server --config=configs/wikitext2.toml --epochs=10 --workdir=runs/general

With --like it takes the config of a federated run and its budget: as many tokens as that run has
trained on. It writes a run directory like `train` does, so evaluate, compare, report and export
take it, and `model.initial_model` of a later run can start from it. Section [client] describes the
SGD (learning rate, momentum, clipping, batch size); a round is `train.clients_per_round` x
`client.max_examples` messages; [server], [aggregation], [fine_tuning] and `client.epochs` are not
used. Killed and started again with the same command, it goes on from the last checkpoint, to the
bit.
"""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from tasks import cli
from tff_keyboard import config as config_lib
from tff_keyboard import quiet

FLAGS = flags.FlagValues()  # of this task alone
_CONFIG = flags.DEFINE_string(
    "config", None, "TOML file; that of --like if left out.", flag_values=FLAGS
)
_LIKE = flags.DEFINE_string(
    "like", None, "Run directory whose config and token budget to take.", flag_values=FLAGS
)
_TOKENS = flags.DEFINE_float("tokens", None, "Budget in tokens.", lower_bound=1, flag_values=FLAGS)
_EPOCHS = flags.DEFINE_float(
    "epochs", None, "Budget in passes over the text.", lower_bound=0, flag_values=FLAGS
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Run directory, new or to be resumed.", flag_values=FLAGS
)
_STORE = flags.DEFINE_string(
    "store", None, "Client store; `data.store` of the config if left out.", flag_values=FLAGS
)
_SET = flags.DEFINE_multi_string(
    "set", [], "Override `section.key=value`; may be repeated.", flag_values=FLAGS
)

EVALUATION_BATCH = 256  # messages; sums do not depend on it


def run(
    config: config_lib.RunConfig,
    workdir: pathlib.Path,
    *,
    tokens: float | None = None,
    epochs: float | None = None,
) -> dict[str, Any]:
    """Trains; called again, it resumes from `workdir`.

    Args:
      config: `train.rounds` counts only where neither of the next two is given.
      workdir: Run directory.
      tokens: Budget in tokens, rounded up to whole rounds.
      epochs: Budget in passes over the pooled text, likewise.

    Returns:
      The last row of metrics, as in `metrics.jsonl`.
    """
    quiet.import_tensorflow_federated()
    from tasks import train as train_task
    from tff_keyboard.algorithms import build_process
    from tff_keyboard.algorithms.central_training import CentralTraining, PooledInputs
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.store.store_card import VOCABULARY_FILE
    from tff_keyboard.evaluation import evaluation_sums
    from tff_keyboard.learning import optimizers
    from tff_keyboard.models.saved_model import save_model
    from tff_keyboard.program import best_round, checkpoints, release, training_loop
    from tff_keyboard.program.read_ahead import RoundInput
    from tff_keyboard.storage.run_directory import RunDirectory

    known = [*evaluation_sums.RATIOS, *evaluation_sums.PERPLEXITIES]
    if config.train.best_metric not in known:
        raise config_lib.ConfigError(
            f"`train.best_metric` of train-server must be one of {', '.join(known)}; "
            f"got {config.train.best_metric!r}."
        )
    store = ClientStore(config.data.store)
    try:
        pooled = PooledInputs(config, store)
    except ValueError as error:
        raise config_lib.ConfigError(str(error)) from None
    if epochs is not None:
        tokens = epochs * pooled.tokens_per_epoch
    if tokens is not None:
        rounds = pooled.rounds_for(tokens)
        config = config_lib.loads(config_lib.dump(config), [f"train.rounds={rounds}"])
        print(f"{tokens:,.0f} tokens: {rounds:,} rounds of {pooled.messages_per_round:,} messages.")
    model = build_process.build_initial_model(config, store.vocabulary)
    with RunDirectory.create(
        workdir,
        config_text=config_lib.dump(config),
        data_card_text=json.dumps(store.card, indent=2, sort_keys=True) + "\n",
        vocabulary_text=(store.directory / VOCABULARY_FILE).read_text(encoding="utf-8"),
        may_change=train_task.MAY_CHANGE,
        defaults_text=config_lib.dump(config_lib.RunConfig()),
    ) as run_directory:
        metrics = release.MetricsRelease(run_directory.metrics_jsonl, run_directory.metrics_csv)
        result = training_loop.TrainingLoop(
            process=CentralTraining(model, optimizers.build_client_optimizer(config.client)),
            cohort_source=lambda round_num: RoundInput(*pooled.round_input(round_num)),
            total_rounds=config.train.rounds,
            checkpoint_manager=checkpoints.CheckpointManager(
                run_directory.checkpoints, config.train.keep_checkpoints
            ),
            release_managers=[metrics, release.TensorBoardRelease(run_directory.tensorboard)],
            timings_manager=release.TimingsRelease(
                run_directory.timings_csv, training_loop.TIMING_COLUMNS
            ),
            evaluate=_validation(config, store),
            evaluate_every=config.evaluation.every,
            best_metric=best_round.BestMetric(
                f"evaluation/{config.train.best_metric}",
                config.train.best_mode,
                config.train.early_stop_patience or None,
            ),
            checkpoint_every=config.train.checkpoint_every,
            max_rejected_in_a_row=config.train.max_rejected_rounds,
            progress=train_task.RoundLines(config.train.rounds),
        ).train()
        is_best = config.train.final_model == "best"
        weights = result.best_model_weights if is_best else result.model_weights
        weights.assign_weights_to(model)
        save_model(run_directory.model, model, store.vocabulary)
        train_task.report(result, config, run_directory.path)
        return metrics.rows()[-1]


def _validation(config: config_lib.RunConfig, store: Any):
    """`(round, weights) -> metrics` on the validation clients, in this process."""
    from tff_keyboard.data import batches
    from tff_keyboard.evaluation import evaluation_sums
    from tff_keyboard.evaluation.evaluate_model import Evaluator
    from tff_keyboard.learning.client_inputs import evaluation_clients
    from tff_keyboard.models import build_model

    model = build_model(
        config.model.name,
        vocabulary_size=len(store.vocabulary),
        seed=config.train.seed,
        **config.model.options(),
    )
    evaluator = Evaluator(model.score)
    clients = [
        batches.evaluation_batches(
            store.examples("validation", client_id),
            batch_size=EVALUATION_BATCH,
            max_length=config.data.max_length,
            max_examples=config.evaluation.max_examples,
        )
        for client_id in evaluation_clients(store, "validation", config.evaluation)
    ]

    def evaluate(round_num: int, weights: Any) -> dict[str, float]:
        del round_num
        weights.assign_weights_to(model)
        return evaluation_sums.finalize(evaluator.sums_per_client(clients))

    return evaluate


def tokens_trained(run_path: pathlib.Path) -> int:
    """Tokens a run has trained on, from its metrics.

    Raises:
      RunDirectoryError, ProgramError: It is no run directory, or has no metrics yet.
    """
    from tff_keyboard.program.release import read_rows
    from tff_keyboard.storage.run_directory import RunDirectory

    rows = read_rows(RunDirectory.open(run_path).metrics_jsonl)
    return sum(int(row["tokens"]) for row in rows)


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    cli.only_flags(argv)
    if not _WORKDIR.value:
        raise cli.UsageError("Give --workdir=DIRECTORY, where the run is kept.")
    if _TOKENS.value is not None and _EPOCHS.value is not None:
        raise cli.UsageError("Give --tokens or --epochs, not both.")
    overrides = list(_SET.value)
    if _STORE.value:
        overrides.append(f"data.store={json.dumps(_STORE.value)}")
    config_path, tokens = _CONFIG.value, _TOKENS.value
    if _LIKE.value:
        config_path = config_path or str(pathlib.Path(_LIKE.value) / "config.toml")
        if tokens is None and _EPOCHS.value is None:
            quiet.import_tensorflow_federated()
            tokens = tokens_trained(pathlib.Path(_LIKE.value))
    elif not config_path:
        raise cli.UsageError("Give --like=RUN_DIR or --config=FILE. See --help.")
    run(
        config_lib.load(config_path, overrides),
        pathlib.Path(_WORKDIR.value),
        tokens=tokens,
        epochs=_EPOCHS.value,
    )


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
