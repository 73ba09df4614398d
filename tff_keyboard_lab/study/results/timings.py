"""Times of a run's rounds, from its `timings.csv`."""

import contextlib
import csv
import io
import pathlib
import statistics

from tff_keyboard.storage import files, metrics_rows
from tff_keyboard.storage.run_directory import RunDirectory


def by_round(run: pathlib.Path, column: str) -> dict[int, float]:
    """Returns round -> value of a column of `timings.csv`, of the rounds that have it."""
    path = RunDirectory(run).timings_csv
    if not path.exists():
        return {}
    text = files.read_bytes(path).decode("utf-8", errors="replace")
    values = {}
    for row in csv.DictReader(io.StringIO(text, newline="")):
        # A kill may have cut a line, and earlier versions had fewer columns.
        with contextlib.suppress(KeyError, TypeError, ValueError):
            values[int(row[metrics_rows.ROUND])] = float(row[column])
    return values


def cpu_seconds_per_round(run: pathlib.Path) -> float | None:
    """Returns the CPU seconds of the median round after the first, or None if not measured.

    The median leaves out most of the work of validations, if they are not in every second round.
    """
    seconds = by_round(run, "round_cpu_seconds")
    later = [value for round_num, value in seconds.items() if round_num > 1]
    return statistics.median(later) if later else None
