"""The rows of `metrics.jsonl`: one JSON object for each round, rounds 1, 2, 3, ... without a gap.

One policy for damage. A last line without its line feed was cut by a kill and counts for nothing:
it belongs to a round that was not finished. Whatever else is wrong (a line that is no row, a
missing or repeated round) ends what can be trusted: a reader says so in one line, and a training
that is resumed computes the rounds from there again.
"""

import json
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tff_keyboard.storage import errors, files

Value: TypeAlias = float | int | str
Row: TypeAlias = dict[str, Value]

ROUND = "round"


def read_rows(path: pathlib.Path) -> list[Row]:
    """All rows; none where there is no file.

    Raises `RunDirectoryError` if the file is damaged or cannot be read; names the line.
    """
    rows, problem = _scan(path)
    if problem:
        raise errors.RunDirectoryError(
            f"{path}, {problem}. Restore the file, or run the training again with the same "
            "command: it computes the rounds that are missing."
        )
    return rows


def read_sound_rows(path: pathlib.Path) -> list[Row]:
    """The rows before the first damage. Raises `RunDirectoryError` if the file cannot be read."""
    return _scan(path)[0]


def row_line(row: Mapping[str, Value]) -> bytes:
    """A row as it stands in the file."""
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def round_of(row: Mapping[str, Value]) -> int:
    """The round that a row belongs to."""
    return int(row[ROUND])


def total(rows: Iterable[Mapping[str, Value]], last_word: str) -> float:
    """Sum over rounds of the metrics whose name ends in `/last_word`, or is it.

    >>> total([{"round": 1, "tokens": 3, "train/tokens": 2}, {"round": 2, "tokens": 1}], "tokens")
    6.0
    """
    return math.fsum(
        value
        for row in rows
        for name, value in row.items()
        if name.rpartition("/")[2] == last_word and isinstance(value, int | float)
    )


def series(rows: Iterable[Mapping[str, Value]], name: str) -> tuple[list[int], list[float]]:
    """`(rounds, values)` of the rows that have a metric."""
    found = [(round_of(row), float(row[name])) for row in rows if row.get(name) is not None]
    return [round_num for round_num, _ in found], [value for _, value in found]


def running_total(rows: Iterable[Mapping[str, Value]], name: str) -> dict[int, float]:
    """Round -> sum of a metric up to and with it; empty where no row has the metric."""
    total, totals = 0.0, {}
    for row in rows:
        if name in row:
            total += float(row[name])
            totals[round_of(row)] = total
    return totals


def _scan(path: pathlib.Path) -> tuple[list[Row], str]:
    """The sound rows, and what is wrong with the line after them."""
    try:
        lines = files.read_bytes(path).split(b"\n")[:-1] if path.exists() else []
    except OSError as error:  # `exists`, below a directory that may not be entered
        raise errors.RunDirectoryError(f"Cannot read {path}: {error.strerror}.") from None
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is None:
            return rows, f"line {number} is damaged"
        if row[ROUND] != number:
            return rows, f"line {number} is of round {row[ROUND]}: round {number} is missing"
        rows.append(row)
    return rows, ""


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or type(row.get(ROUND)) is not int:
        return None
    return row if all(isinstance(value, float | int | str) for value in row.values()) else None
