"""Evaluations of finished runs, made once for each set of weights, and differences between them."""

import contextlib
import hashlib
import io
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks import evaluate
from tff_keyboard.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from tff_keyboard.metrics.jackknife import Interval

_DIGEST_LETTERS = 12


def weights_digest(run_path: pathlib.Path) -> str:
    """Of the names and values in `model/weights.npz`; the archive itself has dates."""
    checksum = hashlib.sha256()
    with np.load(RunDirectory(run_path).weights) as arrays:
        for name in sorted(arrays.files):
            array = np.ascontiguousarray(arrays[name])
            checksum.update(f"{name}{array.dtype.str}{array.shape}".encode())
            checksum.update(array.tobytes())
    return checksum.hexdigest()[:_DIGEST_LETTERS]


def num_parameters(run_path: pathlib.Path) -> int:
    """Of the model that a run has left.

    Raises:
      OSError: There is none.
    """
    with np.load(RunDirectory(run_path).weights) as arrays:
        return sum(int(arrays[name].size) for name in arrays.files)


def evaluation(run_path: pathlib.Path, population: str) -> dict[str, Any]:
    """What `evaluate.run` returns for all clients of a population; kept in the run directory.

    The file is named after the weights, so that a run that was trained on is evaluated anew.
    """
    path = RunDirectory(run_path).evaluation_path(population, weights_digest(run_path))
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    overrides = ["evaluation.clients=0", "evaluation.max_examples=0"]
    with contextlib.redirect_stdout(io.StringIO()):  # its table: ours has one for all runs
        return evaluate.run(run_path, population, out=path, keystrokes=False, overrides=overrides)


def metric_interval(result: Mapping[str, Any], metric: str) -> "Interval":
    """A metric of one evaluation, 95 % jackknife over people."""
    from tff_keyboard.evaluation import comparison

    return comparison.metric_interval(_sums([result]), metric)


def metric_difference(
    results: Sequence[Mapping[str, Any]], controls: Sequence[Mapping[str, Any]], metric: str
) -> "Interval":
    """Paired `results - controls` (a perplexity: the ratio), over people; seeds are pooled.

    Args:
      results: Evaluations of one method, one a seed.
      controls: Of the other method, as many.
      metric: A name of `evaluation_sums.RATIOS` or `PERPLEXITIES`.

    Raises:
      ValueError: The evaluations are not of the same people.
    """
    from tff_keyboard.evaluation import comparison

    if _people([*results, *controls]) != 1 or len(results) != len(controls):
        raise ValueError("A paired difference needs evaluations of the same people.")
    return comparison.metric_difference(_sums(results), _sums(controls), metric)


def pooled_interval(results: Sequence[Mapping[str, Any]], metric: str) -> "Interval":
    """A metric over all seeds; a person is left out of all of them at once.

    Raises:
      ValueError: The evaluations are not of the same people.
    """
    from tff_keyboard.evaluation import comparison

    if _people(results) != 1:
        raise ValueError("Seeds can be pooled on the same people only.")
    return comparison.metric_interval(_sums(results), metric)


def _people(results: Sequence[Mapping[str, Any]]) -> int:
    """How many different lists of people (and texts) there are."""
    return len(
        {
            (result["store"], result["population"], *(row["client"] for row in result["clients"]))
            for result in results
        }
    )


def _sums(results: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Name -> [people], added over evaluations of the same people."""
    rows = zip(*(result["clients"] for result in results), strict=True)
    people = list(rows)
    names = [name for name in people[0][0] if name != "client"]
    return {
        name: np.array([math.fsum(row[name] for row in person) for person in people])
        for name in names
    }


def interval_values(interval: "Interval") -> dict[str, float]:
    """For JSON."""
    return {"value": interval.value, "low": interval.low, "high": interval.high}


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
