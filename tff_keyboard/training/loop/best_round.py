"""Finds the best round, decides on early stopping, and counts rejected rounds."""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from tff_keyboard.config.sections.train_config import OwnMetric, TrainConfig
from tff_keyboard.evaluation.metrics import metric_table
from tff_keyboard.training.loop import errors

EVALUATION_PREFIX = "evaluation"
_PERPLEXITY = f"{EVALUATION_PREFIX}/perplexity"


@dataclasses.dataclass(frozen=True)
class BestMetric:
    """Metric for the comparison of rounds."""

    name: str  # Name in `metrics.csv`, e.g. "evaluation/recall_at_1".
    mode: str = "max"
    # consecutive comparisons without a better value until training stops; None: never
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise ValueError(f"`mode` must be 'max' or 'min', got {self.mode!r}.")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"`patience` must be >= 1 evaluations or None, got {self.patience}.")

    @classmethod
    def of_config(
        cls, train: TrainConfig, own_metrics: Mapping[str, OwnMetric] | None = None
    ) -> "BestMetric":
        """Returns the metric of a run, which may be one of the user."""
        name = train.best_metric.rpartition("/")[2]
        metric = (own_metrics or {}).get(name) or metric_table.METRICS[name]
        return cls(
            f"{EVALUATION_PREFIX}/{train.best_metric}",
            "min" if metric.better == "lower" else "max",
            train.early_stop_patience or None,
        )

    @property
    def is_of_evaluation(self) -> bool:
        """Checks whether only evaluated rounds have it."""
        return self.name.startswith(EVALUATION_PREFIX + "/")


class LoopState(NamedTuple):
    """State of the loop between rounds, besides the process's state. It is checkpointed."""

    best_value: float = math.nan  # best value of the metric so far, NaN before the first
    # Its round. 0 before the first, or if it is of the model before the first round
    best_round: int = 0
    comparisons_since_best: int = 0
    rejected_rounds: int = 0
    rejected_in_a_row: int = 0

    @classmethod
    def from_arrays(cls, arrays: "LoopState") -> "LoopState":
        """Returns the state with Python numbers instead of a checkpoint's NumPy arrays."""
        return cls(float(arrays[0]), *map(int, arrays[1:]))

    @property
    def keeps_start(self) -> bool:
        """Whether no round was better than the model before the first one."""
        return self.best_round == 0 and not math.isnan(self.best_value)

    def after_comparison(self, best: BestMetric, value: float, round_num: int) -> "LoopState":
        """Returns the state after a measured value of the metric.

        NaN is never better, and an equal value is not better.
        """
        is_first = math.isnan(self.best_value) and not math.isnan(value)
        better = value > self.best_value if best.mode == "max" else value < self.best_value
        if is_first or better:
            return self._replace(best_value=value, best_round=round_num, comparisons_since_best=0)
        return self._replace(comparisons_since_best=self.comparisons_since_best + 1)

    def has_waited_in_vain(self, best: BestMetric) -> bool:
        """Checks whether training stops because there was no better value."""
        return best.patience is not None and self.comparisons_since_best >= best.patience

    def after_round(self, *, rejected: bool) -> "LoopState":
        """Returns the state after a round, whose update may be rejected."""
        return self._replace(
            rejected_rounds=self.rejected_rounds + rejected,
            rejected_in_a_row=self.rejected_in_a_row + 1 if rejected else 0,
        )


def metric_value(best: BestMetric, row: Mapping[str, float | int | str]) -> float:
    """Returns the value of the metric in a row; NaN, which is never best, if the model diverged.

    Raises:
      ProgramError: If the metric is missing, or is a string.
    """
    value = row.get(best.name)
    if value is None or isinstance(value, str):
        numeric = ", ".join(name for name, v in row.items() if not isinstance(v, str))
        raise errors.ProgramError(
            f"`train.best_metric` = {best.name!r} is not a metric of this run. Use one of: "
            f"{numeric}."
        )
    perplexity = row.get(_PERPLEXITY, 0.0)
    has_diverged = not isinstance(perplexity, str) and math.isnan(perplexity)
    return math.nan if has_diverged else float(value)


def is_rejected(row: Mapping[str, float | int | str]) -> bool:
    """Checks whether a round's update was rejected, by its metrics.

    It was if a metric named `.../update_non_finite` (TFF's finalizer) or `.../rejected` is not 0.
    """
    kinds = ("update_non_finite", "rejected")
    values = (value for name, value in row.items() if name.rsplit("/", 1)[-1] in kinds)
    return any(bool(value) for value in values if not isinstance(value, str))


def has_trained_nothing(row: Mapping[str, float | int | str]) -> bool:
    """Checks whether no client of a round trained on a word, although there were clients with text.

    Client work sends zeros, weight 0 and no metrics for an update that is not finite, so the
    aggregator counts no rejected update.
    """
    clients, words = row.get("clients"), row.get("client_work/train/tokens")
    return bool(clients) and words == 0
