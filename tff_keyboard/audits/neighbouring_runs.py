"""Checks that two runs differ by one person only, and says what their ledger proves."""

import dataclasses
import math
import pathlib

from tff_keyboard import config as config_lib
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.ledger import ledger
from tff_keyboard.storage.run_directory import RunDirectory, flatten

# What may differ between two runs that differ by one person.
_MAY_DIFFER = ("train.left_out_client", "execution.")


def rounds_joined(full: pathlib.Path, other: pathlib.Path) -> int | None:
    """Rounds whose cohorts differ, that is in which the person took part; None if not known.

    Cohorts that each run drew by a key of its own say nothing of one person.
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
    """Config keys, beside the person left out, in which two run directories differ."""
    paths = [RunDirectory(path).config_path for path in (full, other)]
    if not all(path.is_file() for path in paths):
        return []
    one, two = (flatten(config_lib.to_dict(config_lib.load_of_run(path))) for path in paths)
    differing = (key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    return sorted(key for key in differing if not key.startswith(_MAY_DIFFER))


@dataclasses.dataclass(frozen=True)
class Formal:
    """What a run's privacy ledger proves."""

    epsilon: float | None
    delta: float
    adjacency: str
    rounds: int


def formal_guarantee(path: pathlib.Path) -> Formal | None:
    """What the run's privacy ledger proves; None where it kept none."""
    ledger_path = RunDirectory(path).privacy_ledger
    if not ledger_path.exists():
        return None
    header, rounds = ledger.read_ledger(ledger_path)
    guarantee = guarantee_of(header.unprojected, len(rounds))
    epsilon = guarantee.epsilon if math.isfinite(guarantee.epsilon) else None
    return Formal(epsilon, guarantee.delta, guarantee.adjacency, len(rounds))
