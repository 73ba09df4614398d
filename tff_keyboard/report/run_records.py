"""What a run left on disk, as plain values: no TensorFlow, no TFF."""

import dataclasses
import json
import pathlib
from typing import Any

from tff_keyboard.data.errors import DataError
from tff_keyboard.evaluation.evaluation_sums import SUM_DTYPES

LEDGER_FILE = "privacy_ledger.jsonl"


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """One run directory.

    Attributes:
      name: Of the directory.
      path: Of the directory.
      rows: Of metrics.jsonl, a mapping per round.
      config_text: config.toml.
      data_card: data_card.json.
      environment: environment.json.
    """

    name: str
    path: pathlib.Path
    rows: list[dict[str, Any]]
    config_text: str
    data_card: dict[str, Any]
    environment: dict[str, Any]

    @property
    def ledger_path(self) -> pathlib.Path | None:
        """The privacy ledger, where the run has one."""
        path = self.path / LEDGER_FILE
        return path if path.is_file() else None

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """`(rounds, values)` of the rows that have a metric."""
        found = [(row["round"], row[name]) for row in self.rows if row.get(name) is not None]
        return [r for r, _ in found], [float(v) for _, v in found]

    def running_total(self, name: str) -> dict[int, float]:
        """Round -> sum of a metric up to and with it; empty where the run has no such metric."""
        total, totals = 0.0, {}
        for row in self.rows:
            if name in row:
                total += float(row[name])
                totals[row["round"]] = total
        return totals


def read_run(path: pathlib.Path) -> RunRecord:
    """Reads a run directory, finished or not.

    Raises:
      DataError: It is none, or a file of it is damaged.
    """
    if not (path / "config.toml").is_file():
        raise DataError(f"{path}: is no run directory (it has no config.toml).")
    return RunRecord(
        name=path.name or str(path),
        path=path,
        rows=_rows(path / "metrics.jsonl"),
        config_text=(path / "config.toml").read_text(encoding="utf-8"),
        data_card=_json(path / "data_card.json"),
        environment=_json(path / "environment.json"),
    )


def read_evaluations(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Population -> result of the task `evaluate`, of every evaluation_*.json in a run directory.

    `sums` is added to each: name -> list over people, as in a comparison.
    """
    found = {}
    for file in sorted(path.glob("evaluation_*.json")):
        result = _json(file)
        rows = result.get("clients", [])
        result["sums"] = {name: [row[name] for row in rows] for name in SUM_DTYPES}
        found[result["population"]] = result
    return found


def _rows(path: pathlib.Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    rows = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], start=1):  # an unfinished last line is left out
        try:
            row = json.loads(line)
            row["round"] = int(row["round"])
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}:{number}: is damaged. Remove the line.") from None
        rows.append(row)
    return rows


def _json(path: pathlib.Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise DataError(f"{path}: is damaged; it does not hold a JSON object.")
    return content
