"""Trains a next-word model federatedly, from a client store to a run directory.

tff-keyboard train --config=configs/demo.toml --workdir=runs/demo [--set=train.rounds=30]

Killed at any moment and started again with the same command, it goes on from the last checkpoint
and ends with the same weights and metrics, to the bit.
"""

import dataclasses
import json
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from tasks import cli
from tff_keyboard import config as config_lib
from tff_keyboard import progress, quiet

if TYPE_CHECKING:
    from tff_keyboard.algorithms.build_process import WrapClientWork
    from tff_keyboard.program import training_loop

FLAGS = flags.FlagValues()  # of this task alone
_CONFIG = flags.DEFINE_string(
    "config", None, "TOML file of the run; defaults if left out.", flag_values=FLAGS
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

CLIENTS_PER_SUB_ROUND = 40  # a worker keeps their deltas, 27 MB each; a part costs 0.2 s

# Keys that do not change what a round computes, so a run may be resumed with other values.
MAY_CHANGE = (
    "aggregation.noise_secret",  # a place; the ledger knows whether the secret is the same
    "train.rounds",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.early_stop_patience",
    "train.max_rejected_rounds",
    "execution.workers",  # what counts is `execution.sub_rounds`, which is written out
    "execution.max_concurrent_clients",
)


def run(
    config: config_lib.RunConfig,
    workdir: pathlib.Path,
    wrap_client_work: "WrapClientWork | None" = None,
) -> dict[str, Any]:
    """Wires the parts and trains; called again, it resumes from `workdir`.

    Args:
      config: Of the run.
      workdir: The run directory.
      wrap_client_work: Changes what clients do, as the attack task needs. The run directory does
        not know of it: who gives one sees to it that a resumed run is given the same.

    Returns:
      The last row of metrics, as in `metrics.jsonl`.
    """
    quiet.import_tensorflow_federated()
    from tff_keyboard.algorithms import build_process
    from tff_keyboard.algorithms.fine_tuning import rehearsal
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.store.store_card import VOCABULARY_FILE
    from tff_keyboard.learning import client_inputs, federated_evaluation
    from tff_keyboard.learning import validation as validation_lib
    from tff_keyboard.models.saved_model import save_model, weights_by_name
    from tff_keyboard.privacy import ledger_hook, run_privacy
    from tff_keyboard.program import best_round, checkpoints, execution, release, training_loop
    from tff_keyboard.program.read_ahead import RoundInput
    from tff_keyboard.storage.run_directory import RunDirectory

    known = validation_lib.metric_names(config)
    if config.train.best_metric not in known:
        raise config_lib.ConfigError(
            f"`train.best_metric` must be one of {', '.join(known)}; "
            f"got {config.train.best_metric!r}."
        )
    if not config.execution.sub_rounds:
        parts = math.ceil(config.train.clients_per_round / CLIENTS_PER_SUB_ROUND)
        execution_config = dataclasses.replace(
            config.execution, sub_rounds=max(parts, config.execution.workers)
        )
        config = dataclasses.replace(config, execution=execution_config)
    store = ClientStore(config.data.store)
    general_store = validation_lib.open_general_store(config, store)
    with (
        RunDirectory.create(
            workdir,
            config_text=config_lib.dump(config),
            data_card_text=json.dumps(store.card, indent=2, sort_keys=True) + "\n",
            vocabulary_text=(store.directory / VOCABULARY_FILE).read_text(encoding="utf-8"),
            may_change=MAY_CHANGE,
            defaults_text=config_lib.dump(config_lib.RunConfig()),
        ) as run_directory,
        execution.install_context(
            config.execution.workers,
            num_subrounds=config.execution.sub_rounds,
            max_concurrent_clients=config.execution.max_concurrent_clients or None,
            threads_per_worker=config.execution.threads_per_worker or None,
            log_directory=run_directory.logs,
        ) as context,
    ):
        model = build_process.build_initial_model(config, store.vocabulary)
        cohorts = client_inputs.CohortInputs(
            config, store, rehearsal.build_rehearsal(config.fine_tuning, general_store)
        )
        privacy = None
        if config.aggregation.dp != "none":
            privacy = run_privacy.open_run_privacy(
                config,
                ledger_path=run_directory.privacy_ledger,
                nonce_path=run_directory.noise_nonce,
                store_sha256=store.card["store_sha256"],
                initial_weights=list(weights_by_name(model).values()),
                population=cohorts.population,
                selected_per_round=cohorts.selected_per_round,
            )
        process = build_process.build_process(
            config,
            model,
            wrap_client_work=wrap_client_work,
            general_store=general_store,
            build_noise=privacy.build_noise if privacy else None,
        )
        evaluator = federated_evaluation.FederatedEvaluator(
            build_process.build_model_fn(config, len(store.vocabulary), evaluation=True)
        )
        evaluate = validation_lib.Validation(config, store, general_store, evaluator)
        ledger = None
        if privacy is not None:
            ledger = ledger_hook.LedgerHook(run_directory.privacy_ledger, privacy.header)
        metrics = release.MetricsRelease(run_directory.metrics_jsonl, run_directory.metrics_csv)
        patience = config.train.early_stop_patience
        result = training_loop.TrainingLoop(
            process=process,
            cohort_source=lambda round_num: RoundInput(*cohorts.round_input(round_num)),
            total_rounds=config.train.rounds,
            checkpoint_manager=checkpoints.CheckpointManager(
                run_directory.checkpoints, config.train.keep_checkpoints
            ),
            release_managers=[metrics, release.TensorBoardRelease(run_directory.tensorboard)],
            timings_manager=release.TimingsRelease(
                run_directory.timings_csv, training_loop.TIMING_COLUMNS
            ),
            evaluate=evaluate,
            evaluate_every=config.evaluation.every,
            best_metric=best_round.BestMetric(
                f"evaluation/{config.train.best_metric}", config.train.best_mode, patience or None
            ),
            checkpoint_every=config.train.checkpoint_every,
            max_rejected_in_a_row=config.train.max_rejected_rounds,
            hooks=[ledger] if ledger else [],
            progress=RoundLines(config.train.rounds),
            pop_aggregation_seconds=context.pop_aggregation_seconds,
        ).train()
        is_best = config.train.final_model == "best"
        weights = result.best_model_weights if is_best else result.model_weights
        weights.assign_weights_to(model)
        save_model(run_directory.model, model, store.vocabulary)
        report(result, config, run_directory.path)
        return metrics.rows()[-1]


class RoundLines:
    """A live line for every round on stderr, a lasting one for every evaluation on stdout."""

    def __init__(self, total_rounds: int):
        self._line = progress.Progress("round", total=total_rounds)

    def __call__(self, done: "training_loop.Progress") -> None:
        row = {name: value for name, value in done.row.items() if not isinstance(value, str)}
        if done.round_num == done.resumed_round + 1:
            self._line.start_from(done.resumed_round)
        nats = row["client_work/train/nll"] / max(row["client_work/train/tokens"], 1)
        seconds = done.seconds["round_seconds"] or 0.0
        note = f"loss {nats:.3f} nats  {row['tokens'] / max(seconds, 1e-9):,.0f} tokens/s"
        self._line.update(done.round_num, note)
        if "evaluation/recall_at_1_no_eos" in row:
            self._line.close()
            print(
                f"round {done.round_num:4}  validation: "
                f"top-1 {100 * row['evaluation/recall_at_1_no_eos']:5.2f} %  "
                f"top-3 {100 * row['evaluation/recall_at_3_no_eos']:5.2f} %  "
                f"perplexity {row['evaluation/perplexity']:7.1f}"
                f"{_general_note(row)}"
                f"{'  (best so far)' if done.is_best else ''}",
                flush=True,
            )
        if done.round_num == done.total_rounds:
            self._line.close()


def _general_note(row: Mapping[str, float]) -> str:
    if "evaluation/general/perplexity" not in row:
        return ""
    return (
        f"  general: top-1 {100 * row['evaluation/general/recall_at_1_no_eos']:5.2f} %  "
        f"perplexity {row['evaluation/general/perplexity']:7.1f}"
    )


def report(result: "training_loop.TrainingResult", config, path: pathlib.Path) -> None:
    """Says how training ended and what to do next."""
    loop = result.loop_state
    if result.resumed_round == result.rounds:
        print(f"{path}: all {result.rounds} rounds were done already.")
    if result.stop_reason:
        print(f"Stopped after round {result.rounds}: {result.stop_reason}")
    if loop.rejected_rounds:
        print(f"{loop.rejected_rounds} rounds had no usable update and changed nothing.")
    kept = f"best, round {loop.best_round}" if config.train.final_model == "best" else "last"
    print(f"Model ({kept}): {path / 'model'}\nNext: tff-keyboard evaluate {path}")


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    cli.only_flags(argv)
    if not _WORKDIR.value:
        raise cli.UsageError("Give --workdir=DIRECTORY, where the run is kept.")
    overrides = list(_SET.value)
    if _STORE.value:
        overrides.append(f"data.store={json.dumps(_STORE.value)}")
    run(config_lib.load(_CONFIG.value, overrides), pathlib.Path(_WORKDIR.value))


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
