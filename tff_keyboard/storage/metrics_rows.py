"""The rows of `metrics.jsonl`: one JSON object for each of the rounds 1, 2, 3, ...

A last line without a line feed was cut by a kill. It is ignored, because its round was not
finished. After any other damage (an invalid line, a missing or a repeated round) the rows cannot be
trusted: readers report it in one line, and a resumed training computes the rounds again from there.
"""

import json
import math
import pathlib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tff_keyboard.storage import errors, files, json_text

Value: TypeAlias = float | int | str
Row: TypeAlias = dict[str, Value]

ROUND = "round"


def read_rows(path: pathlib.Path) -> list[Row]:
    """Returns all rows, or an empty list if the file does not exist.

    Raises `RunDirectoryError` if the file is damaged or cannot be read. The error names the line.
    """
    rows, problem = _scan(path)
    if problem:
        raise errors.RunDirectoryError(
            f"{path}, {problem}. Restore the file, or run the training again with the same "
            "command, which computes the missing rounds."
        )
    return rows


def read_sound_rows(path: pathlib.Path) -> list[Row]:
    """Returns the rows before the first damage.

    Raises `RunDirectoryError` if the file cannot be read.
    """
    return _scan(path)[0]


def row_line(row: Mapping[str, Value]) -> bytes:
    """Returns a row as one line of the file."""
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def round_of(row: Mapping[str, Value]) -> int:
    """Returns the round of a row."""
    return int(row[ROUND])


def total(rows: Iterable[Mapping[str, Value]], last_word: str) -> float:
    """Returns the sum over rounds of the metrics named `last_word` or ending in `/last_word`.

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
    """Returns `(rounds, values)` of the rows that have the metric `name`."""
    points = [(round_of(row), float(row[name])) for row in rows if row.get(name) is not None]
    return [round_num for round_num, _ in points], [value for _, value in points]


def running_total(rows: Iterable[Mapping[str, Value]], name: str) -> dict[int, float]:
    """Returns a mapping from each round to the sum of a metric over all rounds up to it.

    The mapping is empty if no row has the metric.
    """
    total, totals = 0.0, {}
    for row in rows:
        if name in row:
            total += float(row[name])
            totals[round_of(row)] = total
    return totals


def _scan(path: pathlib.Path) -> tuple[list[Row], str]:
    """Returns the rows before the first damage, and a description of the damage ("" if none)."""
    try:
        lines = files.read_bytes(path).split(b"\n")[:-1] if path.exists() else []
    except OSError as error:  # `exists` raises it if a parent directory is not accessible
        raise errors.RunDirectoryError(f"Cannot read {path}: {error.strerror}.") from None
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is None:
            return rows, f"line {number} is damaged"
        if row[ROUND] != number:
            return rows, f"line {number} has round {row[ROUND]}: round {number} is missing"
        rows.append(row)
    return rows, ""


def _row(line: bytes) -> Row | None:
    """Returns the metrics of a round; None if the line is damaged."""
    try:
        row = json_text.parse(line)
    except json_text.InvalidJsonError:
        return None
    if not isinstance(row, dict) or type(row.get(ROUND)) is not int:
        return None
    return row if all(isinstance(value, float | int | str) for value in row.values()) else None
