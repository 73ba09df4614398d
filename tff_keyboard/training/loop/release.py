"""Metrics of rounds as JSON lines, CSV and TensorBoard, each round once in spite of kills.

`metrics.jsonl` and `metrics.csv` contain deterministic values only. They are equal, byte for byte,
for a run that was killed and resumed and for one without interruption. Wall clock is in
`timings.csv`.

The loop first writes a round's row and then its checkpoint. On resume from round r,
`restart_after(r)` drops the rows of later rounds, which are computed again, and an incomplete last
line. If rows of earlier rounds are damaged or missing, `rounds_on_disk` shows it and the loop
resumes before them (`storage/metrics_rows.py`). The JSON lines are the original. The CSV file is
written again from them on resume and at each new column (evaluation comes only every few rounds),
so its header always has all columns, in the order of their first appearance.
"""

import abc
import csv
import io
import json
import math
import os
import pathlib
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import tensorflow_federated as tff
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer import record_writer

from tff_keyboard.storage import files, metrics_rows
from tff_keyboard.storage.metrics_rows import ROUND, Row, Value


def flatten_metrics(metrics: Any, prefix: str = "") -> dict[str, Value]:
    """Returns nested metrics as plain scalars named by their path, in their order.

    Scalars become `int`, `float` or `str`. An array gets one entry per element, named by its index.
    Empty containers are dropped.

    >>> flatten_metrics({"train": {"loss": np.float32(0.5), "clients": np.array([3, 4])}})
    {'train/loss': 0.5, 'train/clients/0': 3, 'train/clients/1': 4}

    Raises:
      TypeError: A leaf has another type.
    """
    if isinstance(metrics, tuple) and hasattr(metrics, "_asdict"):
        metrics = metrics._asdict()
    elif attrs.has(type(metrics)):
        metrics = attrs.asdict(metrics, recurse=False)
    elif isinstance(metrics, (list, tuple)) or (not np.isscalar(metrics) and np.ndim(metrics) > 0):
        metrics = dict(enumerate(metrics))
    if not isinstance(metrics, Mapping):
        return {prefix: _plain(np.asarray(metrics)[()], prefix)}
    row: Row = {}
    for key, value in metrics.items():
        row.update(flatten_metrics(value, f"{prefix}/{key}" if prefix else str(key)))
    return row


def _plain(value: Any, name: str) -> Value:
    if isinstance(value, (str, bytes)):
        return value.decode() if isinstance(value, bytes) else str(value)
    if isinstance(value, (np.bool_, np.integer, bool, int)):
        return int(value)
    if isinstance(value, (np.floating, float)):
        return float(value)
    raise TypeError(f"Metric `{name}` is a {type(value).__name__}, not a number or a string.")


class RoundReleaseManager(tff.program.ReleaseManager):
    """A `tff.program.ReleaseManager` of rows keyed by round, which can go back to a round.

    Rounds are released in increasing order. `release` returns when the row is on disk.
    """

    @abc.abstractmethod
    def restart_after(self, round_num: int) -> None:
        """Drops all rows of later rounds; called once before the first release, also with 0."""

    def rounds_on_disk(self) -> int | None:
        """Returns r if rounds 1 to r are complete and sound; None if this manager needs no rows."""
        return None


class MetricsRelease(RoundReleaseManager):
    """Writes `metrics.jsonl` and `metrics.csv`."""

    def __init__(self, jsonl_path: str | os.PathLike[str], csv_path: str | os.PathLike[str]):
        self._jsonl_path = pathlib.Path(jsonl_path)
        self._csv_path = pathlib.Path(csv_path)
        self._columns: list[str] = [ROUND]

    def rows(self) -> list[Row]:
        """Returns all sound rows on disk."""
        return metrics_rows.read_sound_rows(self._jsonl_path)

    def rounds_on_disk(self) -> int:
        return len(self.rows())

    def restart_after(self, round_num: int) -> None:
        rows = self.rows()[:round_num]
        lines = [metrics_rows.row_line(row) for row in rows]
        files.write_atomically(self._jsonl_path, lines)
        self._rewrite_csv(rows)

    async def release(self, value: Mapping[str, Value], key: int) -> None:
        row: Row = {ROUND: key, **value}
        files.append(self._jsonl_path, metrics_rows.row_line(row))
        if any(name not in self._columns for name in row):
            self._rewrite_csv(self.rows())
        else:
            files.append(self._csv_path, _csv_lines([row], self._columns, header=False))

    def _rewrite_csv(self, rows: Sequence[Row]) -> None:
        # dict.fromkeys keeps the order of first appearance
        self._columns = list(dict.fromkeys([ROUND, *(name for row in rows for name in row)]))
        content = _csv_lines(rows, self._columns, header=True)
        files.write_atomically(self._csv_path, [content])


class TimingsRelease(RoundReleaseManager):
    """Writes `timings.csv`: wall clock of each round, with fixed columns.

    A value that was not measured is empty. A kill after a checkpoint may lose the timings of one
    round.
    """

    def __init__(self, path: pathlib.Path, columns: Sequence[str], *, mode: int = files.ANYONE):
        self._path = path
        self._mode = mode
        self._columns = [ROUND, *columns]

    def restart_after(self, round_num: int) -> None:
        columns = []
        if self._path.exists():
            text = files.read_bytes(self._path).decode("utf-8", errors="replace")
            for line in text.split("\n")[1:-1]:  # text after the last line feed is incomplete
                row = dict(zip(self._columns, next(csv.reader([line]), [""]), strict=False))
                if row.get(ROUND, "").isdigit() and int(row[ROUND]) <= round_num:
                    columns.append(row)
        content = _csv_lines(columns, self._columns, header=True)
        files.write_atomically(self._path, [content], mode=self._mode)

    async def release(self, value: Mapping[str, Value], key: int) -> None:
        row: Row = {ROUND: key, **value}
        line = _csv_lines([row], self._columns, header=False)
        files.append(self._path, line, mode=self._mode)


class TensorBoardRelease(RoundReleaseManager):
    """Writes TensorBoard scalars of all numeric metrics.

    Each start writes a new event file. It makes TensorBoard drop the earlier values of rounds that
    are computed again. Strings are left out.
    """

    def __init__(self, directory: str | os.PathLike[str], *, mode: int = files.ANYONE):
        self._directory = pathlib.Path(directory)
        self._mode = mode
        self._file: io.BufferedWriter | None = None

    def restart_after(self, round_num: int) -> None:
        self.close()
        files.make_directory(self._directory, is_part=True)
        name = f"events.out.tfevents.{time.time_ns() // 1000:020d}.{socket.gethostname()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = open(os.open(self._directory / name, flags, self._mode), "ab")  # noqa: PTH123, SIM115
        except OSError as error:
            raise files.cannot_write(self._directory / name, error) from error
        self._write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2"))
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(event_pb2.Event(wall_time=time.time(), step=round_num + 1, session_log=start))

    async def release(self, value: Mapping[str, Value], key: int) -> None:
        scalars = [
            summary_pb2.Summary.Value(tag=name, simple_value=scalar)
            for name, scalar in value.items()
            if not isinstance(scalar, str)
        ]
        summary = summary_pb2.Summary(value=scalars)
        self._write(event_pb2.Event(wall_time=time.time(), step=key, summary=summary))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, event: event_pb2.Event) -> None:
        if self._file is None:
            self.restart_after(0)
        assert self._file is not None
        try:
            record_writer.RecordWriter(self._file).write(event.SerializeToString())
            self._file.flush()
        except OSError as error:
            raise files.cannot_write(self._directory, error) from error


def _csv_lines(rows: Sequence[Mapping], columns: Sequence[str], *, header: bool) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows({name: _csv_value(value) for name, value in row.items()} for row in rows)
    return text.getvalue().encode()


def _csv_value(value: Value | None) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return "" if value is None else value
