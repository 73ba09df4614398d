"""Prints a training's progress: a line per round, and a summary at the end."""

import math
from collections.abc import Iterator, Mapping

from tff_keyboard.config.sections.train_config import OwnMetric
from tff_keyboard.evaluation.metrics.metric_table import METRICS, Metric
from tff_keyboard.evaluation.metrics.own_metrics import metric_of_table
from tff_keyboard.host import progress
from tff_keyboard.host.text_table import next_command
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.loop import training_loop

_SHOWN = {
    f"evaluation/{name}" for name in ("recall_at_1_no_eos", "recall_at_3_no_eos", "perplexity")
}


class RoundLines:
    """A live line for every round on stderr, and a lasting one for every evaluation on stdout.

    `show_training` is whether loss and tokens of training are shown. A private run withholds them.
    `own_metrics` are the tables `evaluation.metrics`.
    """

    def __init__(
        self,
        total_rounds: int,
        *,
        show_training: bool = True,
        own_metrics: Mapping[str, OwnMetric] | None = None,
    ):
        self._show_training = show_training
        self._own_metrics = {
            name: metric_of_table(name, table, {"reference": table.type})
            for name, table in (own_metrics or {}).items()
        }
        self._line = progress.Progress("round", total=total_rounds)

    def say(self, sentence: str) -> None:
        """Prints a separate line."""
        self._line.close()
        print(sentence, flush=True)

    def show_start(self, row: Row) -> None:
        """Shows the validation of the model before the first round."""
        values = {name: value for name, value in row.items() if not isinstance(value, str)}
        self.say(f"the start    validation: {_validation(values, self._own_metrics)}")

    def __call__(self, progress: training_loop.RoundProgress) -> None:
        """Shows one round."""
        row = {name: value for name, value in progress.row.items() if not isinstance(value, str)}
        if progress.round_num == progress.resumed_round + 1:
            if progress.resumed_round:
                self.say(
                    f"Resuming after round {progress.resumed_round} of {progress.total_rounds}."
                )
            self._line.start_from(progress.resumed_round)
        self._line.update(
            progress.round_num, self._note(row, progress.seconds["round_seconds"] or 0.0)
        )
        if figures := _validation(row, self._own_metrics):
            line = f"round {progress.round_num:4}  validation: {figures}"
            self.say(f"{line}  (best so far)" if progress.is_best else line)
            if math.isnan(row.get("evaluation/perplexity", 0.0)):
                self.say(
                    "The model has diverged: its predictions are NaN. Train again with a "
                    "lower client.learning_rate or server.learning_rate."
                )
        if progress.round_num == progress.total_rounds:
            self._line.close()

    def _note(self, row: Mapping[str, float], seconds: float) -> str:
        """Returns the training loss and speed of a round, as far as they may be shown."""
        if not self._show_training:
            return "(loss, counts and times are not published)"
        work_tokens = row.get("client_work/train/tokens", 0)
        nll = row.get("client_work/train/nll")
        if not work_tokens or nll is None:
            # A secure sum reveals nothing else, and a user's process may measure nothing else.
            return f"{row['clients']} clients"
        tokens = row.get("tokens", work_tokens)
        return f"loss {nll / work_tokens:.3f} nats  {tokens / max(seconds, 1e-9):,.0f} tokens/s"


def _validation(row: Mapping[str, float], own_metrics: Mapping[str, Metric]) -> str:
    """Returns the figures of a validation; "" without one."""
    if row.keys() & _SHOWN and not row.keys() >= _SHOWN:  # a user's own validation
        values = {
            name.removeprefix("evaluation/"): value
            for name, value in row.items()
            if name.startswith("evaluation/")
        }
        return "  ".join(f"{name} {value:.4g}" for name, value in values.items())
    if "evaluation/recall_at_1_no_eos" not in row:
        return ""
    line = _figures(row, "", with_top_3=True)
    if "evaluation/general/perplexity" in row:
        line += f"  general: {_figures(row, 'general/', with_top_3=False)}"
    for name, value in row.items():
        metric = name.removeprefix("evaluation/")
        if metric in own_metrics:
            users_metric = own_metrics[metric]
            unit = " %" if users_metric.kind == "percent" else ""
            line += f"  {users_metric.label} {users_metric.format(value)}{unit}"
        elif metric != name and "/" not in metric and metric not in METRICS:
            line += f"  {metric} {value:.4g}"  # of the user's own validation
    return line


def _figures(row: Mapping[str, float], part: str, *, with_top_3: bool) -> str:
    """Returns recall in percent and perplexity of one population of the validation."""

    def recall(k: int) -> str:
        return f"top-{k} {100 * row[f'evaluation/{part}recall_at_{k}_no_eos']:5.2f} %  "

    return (
        f"{recall(1)}{recall(3) if with_top_3 else ''}"
        f"perplexity {row[f'evaluation/{part}perplexity']:7.1f}"
    )


def closing_lines(
    result: training_loop.TrainingResult,
    run: RunDirectory,
    *,
    is_best: bool,
    next_task: str = "evaluate",
) -> Iterator[str]:
    """Yields the result of a training and the next command."""
    loop = result.loop_state
    if result.resumed_round == result.rounds:
        yield f"{run.path}: all {result.rounds} rounds are already done."
    if result.stop_reason:
        yield f"Stopped after round {result.rounds}: {result.stop_reason}"
    if loop.rejected_rounds:
        yield f"{loop.rejected_rounds} rounds had no usable update and changed nothing."
    if loop.best_round == result.rounds and loop.best_value and not result.stop_reason:
        yield "Validation was best after the last round: more rounds may still help (train.rounds)."
    if loop.keeps_start:
        effect = (
            "This model is kept." if is_best else "Set `train.final_model` = 'best' to keep it."
        )
        yield f"No round was better on validation than the model before the first round. {effect}"
    # No round is best if all validated models have diverged.
    round_label = f"best, round {loop.best_round}" if is_best and loop.best_round else "last"
    if is_best and loop.keeps_start:
        round_label = "the start"
    yield f"Model ({round_label}): {run.model}"
    yield next_command(next_task, run.path)
