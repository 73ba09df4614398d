"""The status of the rounds of a run directory, read from its file. No server needs to run."""

import dataclasses
import pathlib
import sqlite3

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError, RunDirectoryError
from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.rounds import Round
from tff_keyboard_fleet.round_server.tables import FILE, newest_round

RECENT = 10  # number of latest rounds over which throughput is averaged
_STATES = (*rounds.OPEN, rounds.AGGREGATING, rounds.RELEASED, rounds.ABANDONED)
# SQLite keeps any text in a column of numbers.
_DAMAGED = f"""
SELECT count(*) FROM rounds
WHERE state NOT IN ({", ".join("?" for _ in _STATES)}) OR state IS NULL
  OR typeof(closed) NOT IN ('real', 'null')
  OR typeof(number) != 'integer' OR typeof(attempt) != 'integer'
  OR typeof(seats) != 'integer' OR typeof(accepted) != 'integer'
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Status:
    """Progress and throughput of the rounds.

    Attributes:
      newest: The newest round; None before the first.
      released: Number of released rounds.
      abandoned: Number of attempts that ended with too few uploads.
      devices: Number of distinct devices with a seat or an upload within the separation.
      uploads: Number of uploads accepted in all rounds that were not abandoned.
      seconds_a_round: Mean over the latest rounds; None if fewer than two were closed.
      uploads_a_round: Mean over the same rounds.
    """

    newest: Round | None
    released: int
    abandoned: int
    devices: int
    uploads: int
    seconds_a_round: float | None
    uploads_a_round: float | None

    def lines(self, total_rounds: int, goal: int) -> list[tuple[str, str]]:
        """Returns names and values for a table.

        Args:
          total_rounds: Number of rounds of the run.
          goal: Report goal of a round.
        """
        rows = [("rounds released", f"{self.released} of {total_rounds}")]
        if self.newest is not None:
            now = self.newest
            state = f"{now.number}, attempt {now.attempt}, {now.state}: {now.seats} seats, "
            rows.append(("newest round", f"{state}{now.accepted} of {goal} uploads"))
        rows += [
            ("attempts abandoned", f"{self.abandoned}"),
            ("devices remembered", f"{self.devices}"),
            ("uploads accepted", f"{self.uploads}"),
        ]
        if self.seconds_a_round:
            hourly = 3600 / self.seconds_a_round
            uploads = hourly * (self.uploads_a_round or 0)
            remaining_seconds = max(total_rounds - self.released, 0) * self.seconds_a_round
            rows += [
                ("throughput", f"{hourly:.3g} rounds, {uploads:.3g} uploads per hour"),
                ("time left", f"about {remaining_seconds / 3600:.3g} hours"),
            ]
        return rows


def read_status(folder: pathlib.Path) -> Status:
    """Reads the status of the rounds in a folder.

    Raises:
      RunDirectoryError: If there are none, or the file is damaged.
      ProgramError: If the file cannot be read at this time.
    """
    path = folder / FILE
    if not path.exists():
        raise RunDirectoryError(
            f"{path} is missing: no rounds were served here. Pass the run directory of "
            "`tff-keyboard serve-rounds`."
        )
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            return _status(db)
        finally:
            db.close()
    except sqlite3.Error as error:
        if files.is_transient(error):
            raise ProgramError(
                f"{path} cannot be read at the moment ({error}). Try again."
            ) from None
        raise files.damaged(path, str(error)) from None


def _status(db: sqlite3.Connection) -> Status:
    """Returns the counts of the file, and the speed of the last `RECENT` rounds."""
    (damaged,) = db.execute(_DAMAGED, _STATES).fetchone()
    if damaged:
        raise sqlite3.DataError(f"{damaged} rounds have values of a wrong type")
    states = dict(db.execute("SELECT state, count(*) FROM rounds GROUP BY state"))
    (uploads,) = db.execute(
        "SELECT coalesce(sum(accepted), 0) FROM rounds WHERE state!=?", (rounds.ABANDONED,)
    ).fetchone()
    (devices,) = db.execute("SELECT count(DISTINCT device) FROM seats").fetchone()
    latest = db.execute(
        "SELECT closed, accepted FROM rounds WHERE closed IS NOT NULL AND state!=? "
        "ORDER BY number DESC LIMIT ?",
        (rounds.ABANDONED, RECENT + 1),
    ).fetchall()
    intervals = len(latest) - 1
    return Status(
        newest=newest_round(db),
        released=states.get(rounds.RELEASED, 0),
        abandoned=states.get(rounds.ABANDONED, 0),
        devices=devices,
        uploads=uploads,
        seconds_a_round=(latest[0][0] - latest[-1][0]) / intervals if intervals > 0 else None,
        uploads_a_round=sum(n for _, n in latest[:-1]) / intervals if intervals > 0 else None,
    )
