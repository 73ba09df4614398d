"""Which round was best, when to stop for want of a better one, and how many were rejected."""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.program import errors

EVALUATION_PREFIX = "evaluation"


@dataclasses.dataclass(frozen=True)
class BestMetric:
    """The metric by which rounds are compared."""

    name: str  # Name in `metrics.csv`, e.g. "evaluation/recall_at_1".
    mode: str = "max"
    # comparisons in a row without a better value after which training stops; None: never
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise ValueError(f"`mode` must be 'max' or 'min', got {self.mode!r}.")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"`patience` must be >= 1 evaluations or None, got {self.patience}.")

    @classmethod
    def of_config(cls, train: TrainConfig) -> "BestMetric":
        """That of a run."""
        name = f"{EVALUATION_PREFIX}/{train.best_metric}"
        return cls(name, train.best_mode, train.early_stop_patience or None)

    @property
    def is_of_evaluation(self) -> bool:
        """Whether only evaluated rounds have it."""
        return self.name.startswith(EVALUATION_PREFIX + "/")


class LoopState(NamedTuple):
    """What the loop remembers between rounds beside the state of the process; checkpointed."""

    best_value: float = math.nan  # best value of the metric so far, NaN before the first
    best_round: int = 0  # its round, 0 before the first
    comparisons_since_best: int = 0
    rejected_rounds: int = 0
    rejected_in_a_row: int = 0

    @classmethod
    def from_arrays(cls, arrays: "LoopState") -> "LoopState":
        """The state with Python numbers, where a checkpoint gives NumPy's."""
        return cls(float(arrays[0]), *map(int, arrays[1:]))

    def after_comparison(self, best: BestMetric, value: float, round_num: int) -> "LoopState":
        """The state after a value of the metric was measured. NaN is never better; a tie is not
        better."""
        is_first = math.isnan(self.best_value) and not math.isnan(value)
        better = value > self.best_value if best.mode == "max" else value < self.best_value
        if is_first or better:
            return self._replace(best_value=value, best_round=round_num, comparisons_since_best=0)
        return self._replace(comparisons_since_best=self.comparisons_since_best + 1)

    def has_waited_in_vain(self, best: BestMetric) -> bool:
        """Whether training stops for want of a better value."""
        return best.patience is not None and self.comparisons_since_best >= best.patience

    def after_round(self, *, rejected: bool) -> "LoopState":
        """The state after a round was trained, whether its update was thrown away or not."""
        return self._replace(
            rejected_rounds=self.rejected_rounds + rejected,
            rejected_in_a_row=self.rejected_in_a_row + 1 if rejected else 0,
        )


def metric_value(best: BestMetric, row: Mapping[str, float | int | str]) -> float:
    """The value of the metric in a row; a `ProgramError` if it is not there, or is a string."""
    value = row.get(best.name)
    if value is None or isinstance(value, str):
        numeric = ", ".join(name for name, v in row.items() if not isinstance(v, str))
        raise errors.ProgramError(
            f"There is no metric {best.name!r} to find the best round by. Give one of: {numeric}."
        )
    return float(value)


def is_rejected(row: Mapping[str, float | int | str]) -> bool:
    """Whether a round's metrics say that its update was thrown away.

    True when a metric named `.../update_non_finite` (TFF's finalizer) or `.../rejected` is not 0.
    """
    kinds = ("update_non_finite", "rejected")
    found = (value for name, value in row.items() if name.rsplit("/", 1)[-1] in kinds)
    return any(bool(value) for value in found if not isinstance(value, str))
