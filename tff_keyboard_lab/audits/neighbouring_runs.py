"""Checks that two runs differ by one client only, and reads the claim of their ledger."""

import dataclasses
import math
import pathlib

from tff_keyboard import config as config_lib
from tff_keyboard.privacy.claims.claim import claim_of
from tff_keyboard.privacy.claims.guarantee import total_guarantee
from tff_keyboard.privacy.claims.statement import labels_of
from tff_keyboard.privacy.ledger import ledger
from tff_keyboard.privacy.ledger.lineage import ledger_of
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
    """The claim of a run's privacy ledger, about all releases on its clients.

    Attributes:
      run: The run directory.
      rounds: Number of released rounds.
      claims: Whether the statement of the run has a claim. The other fields say nothing otherwise.
      epsilon: Of the released models, also if the run is a projection. None if it is infinite.
      delta: Delta.
      adjacency: Difference of two neighbouring data sets.
      labels: Why it is not a plain guarantee (`statement.labels_of`).
    """

    run: str
    rounds: int
    claims: bool
    epsilon: float | None = None
    delta: float = 0.0
    adjacency: str = ""
    labels: tuple[str, ...] = ()


def formal_guarantee(path: pathlib.Path) -> Formal | None:
    """Returns the claim of the run that contains a model, or None if it has no privacy ledger."""
    ledger_path = ledger_of(path)
    if not ledger_path.exists():
        return None
    header, rounds = ledger.read_ledger(ledger_path)
    real = None
    if claim_of(RunDirectory(ledger_path.parent), header, len(rounds)) is not None:
        real = total_guarantee(header.unprojected, len(rounds))
    if real is None:
        return Formal(run=str(ledger_path.parent), rounds=len(rounds), claims=False)
    return Formal(
        run=str(ledger_path.parent),
        rounds=len(rounds),
        claims=True,
        epsilon=real.epsilon if math.isfinite(real.epsilon) else None,
        delta=real.delta,
        adjacency=real.adjacency,
        labels=labels_of(header.unprojected),
    )
