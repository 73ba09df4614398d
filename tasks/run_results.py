"""The rows of metrics of a run, as tasks and benchmarks add them up."""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.storage.run_directory import RunDirectory


def training_rows(run_path: pathlib.Path) -> Sequence[Mapping[str, Any]]:
    """The metrics of a run, one row a round; none where there is no run yet."""
    return RunDirectory(run_path).rows()


def total(rows: Sequence[Mapping[str, Any]], last_word: str) -> float:
    """Sum over rounds of the metrics whose name ends in `/last_word`, or is it."""
    return math.fsum(
        value
        for row in rows
        for name, value in row.items()
        if name.rpartition("/")[2] == last_word and isinstance(value, int | float)
    )
