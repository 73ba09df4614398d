"""Checks that two runs differ by one client only, and reads the guarantee of their ledger."""

import dataclasses
import math
import pathlib

from tff_keyboard import config as config_lib
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.ledger import ledger
from tff_keyboard.storage.run_directory import RunDirectory, flatten

# Config keys that may differ between two runs that differ by one client.
_MAY_DIFFER = ("train.excluded_client", "execution.")


def rounds_joined(full: pathlib.Path, other: pathlib.Path) -> int | None:
    """Returns the number of rounds in which the client took part: rounds whose cohorts differ.

    Returns None if it is not known. If each run drew its cohorts by its own key, their differences
    say nothing about one client.
    """
    runs = [RunDirectory(path) for path in (full, other)]
    if not all(run.metrics_jsonl.is_file() for run in runs):
        return None
    ledgers = [run.privacy_ledger for run in runs if run.privacy_ledger.exists()]
    if any(ledger.read_ledger(path)[0].secret_cohorts for path in ledgers):
        return None
    rows = [run.all_rows() for run in runs]
    cohorts = [{row["round"]: row.get("cohort") for row in run_rows} for run_rows in rows]
    return sum(cohorts[0][r] != cohorts[1][r] for r in cohorts[0].keys() & cohorts[1].keys())


def other_differences(full: pathlib.Path, other: pathlib.Path) -> list[str]:
    """Returns config keys in which two run directories differ, except for the client left out."""
    paths = [RunDirectory(path).config_path for path in (full, other)]
    if not all(path.is_file() for path in paths):
        return []
    one, two = (flatten(config_lib.to_dict(config_lib.load_of_run(path))) for path in paths)
    differing = (key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    return sorted(key for key in differing if not key.startswith(_MAY_DIFFER))


@dataclasses.dataclass(frozen=True)
class Formal:
    """The guarantee of a run's privacy ledger."""

    epsilon: float | None
    delta: float
    adjacency: str
    rounds: int


def formal_guarantee(path: pathlib.Path) -> Formal | None:
    """Returns the guarantee of the run's privacy ledger, or None if it has none."""
    ledger_path = RunDirectory(path).privacy_ledger
    if not ledger_path.exists():
        return None
    header, rounds = ledger.read_ledger(ledger_path)
    guarantee = guarantee_of(header.unprojected, len(rounds))
    epsilon = guarantee.epsilon if math.isfinite(guarantee.epsilon) else None
    return Formal(epsilon, guarantee.delta, guarantee.adjacency, len(rounds))
