"""Reads run directories as plain values, without TensorFlow or TFF."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from tff_keyboard.data.sources.messages import POPULATIONS
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.run_evaluation import read_evaluation
from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """The content of one run directory."""

    name: str
    path: pathlib.Path
    rows: Sequence[metrics_rows.Row]
    config_text: str
    data_card: dict[str, Any]  # data_card.json; empty if it is missing
    environment: dict[str, Any]  # environment.json; empty if it is missing
    ledger_path: pathlib.Path | None
    is_private: bool = False  # whether noise hides its clients

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Returns `(rounds, values)` of the rows that have the metric `name`."""
        return metrics_rows.series(self.rows, name)

    def running_total(self, name: str) -> dict[int, float]:
        """Returns round -> sum of a metric up to it; empty if the run has no such metric."""
        return metrics_rows.running_total(self.rows, name)


def read_run(path: pathlib.Path) -> RunRecord:
    """Reads a run directory, finished or not.

    Raises `RunDirectoryError` if it is not a run directory, or has a damaged file.
    """
    run = RunDirectory.open(path)
    return RunRecord(
        name=run.name,
        path=path,
        rows=run.rows(),
        config_text=run.config_text(),
        data_card=run.data_card() if run.data_card_path.exists() else {},
        environment=run.environment() if run.environment_path.exists() else {},
        ledger_path=run.privacy_ledger if run.privacy_ledger.is_file() else None,
        is_private=run.declares_privacy or run.privacy_ledger.exists(),
    )


def read_evaluations(path: pathlib.Path) -> dict[str, Evaluation]:
    """Returns population -> result of the task `evaluate` in a run directory.

    Raises `DataError` if a file is damaged.
    """
    run = RunDirectory(path)
    paths = {name: run.evaluation_path(name) for name in POPULATIONS}
    return {name: read_evaluation(file) for name, file in paths.items() if file.is_file()}
