"""What the rounds that a run has on disk took: tokens, and seconds by the run's own clock.

The clock of a round holds its evaluation and saving, not the start of the process. A round that is
computed again after a kill counts once.
"""

import contextlib
import csv
import pathlib

from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.study.results import curve


def seconds_by_round(run: pathlib.Path) -> dict[int, float]:
    """Round -> seconds, of the rounds whose time is known."""
    path = RunDirectory(run).timings_csv
    if not path.exists():
        return {}
    with path.open(newline="", errors="replace") as file:
        rows = list(csv.DictReader(file))
    seconds = {}
    for row in rows:
        with contextlib.suppress(TypeError, ValueError):  # a line that a kill has cut
            seconds[int(row[metrics_rows.ROUND])] = float(row["round_seconds"])
    return seconds


def tokens_by_round(run: pathlib.Path) -> dict[int, float]:
    """Round -> tokens; none where the metrics are damaged: those rounds are computed again."""
    try:
        rows = RunDirectory(run).all_rows()
    except RunDirectoryError:
        return {}
    return {metrics_rows.round_of(row): float(row.get(curve.TOKENS, 0)) for row in rows}
