"""The SQLite file of the rounds: its tables and transactions, and the class of an upload."""

import contextlib
import dataclasses
import pathlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.round_server.rounds import Round

FILE = "rounds.sqlite"
_FIELDS = [field.name for field in dataclasses.fields(Round)]

# In `seats`, weight and loss are set before the upload if the plan has a phase for it. `chosen` is
# 1 if the device shall then upload. `place` is the position among the accepted uploads. `sums` has
# the messages of secure sums and the ends of their steps in order, and the keys of their devices.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS rounds (
  number INTEGER, attempt INTEGER, state TEXT, model TEXT, plan TEXT, begun REAL, seats INTEGER,
  told INTEGER, wanted INTEGER, accepted INTEGER, closed REAL, PRIMARY KEY (number, attempt));
CREATE TABLE IF NOT EXISTS seats (
  assignment TEXT PRIMARY KEY, number INTEGER, attempt INTEGER, device BLOB, place INTEGER,
  sha256 TEXT, weight REAL, loss REAL, chosen INTEGER NOT NULL DEFAULT 0,
  UNIQUE (number, attempt, device)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS seats_of_devices ON seats (device) WHERE place IS NOT NULL;
CREATE TABLE IF NOT EXISTS uploads (
  number INTEGER, attempt INTEGER, place INTEGER, weight REAL, loss REAL, codec TEXT,
  assignment TEXT, payload BLOB, PRIMARY KEY (number, attempt, place));
CREATE TABLE IF NOT EXISTS sums (
  place INTEGER PRIMARY KEY, number INTEGER, attempt INTEGER, assignment TEXT, device BLOB,
  step TEXT, body BLOB, UNIQUE (assignment, step));
CREATE TABLE IF NOT EXISTS models (number INTEGER PRIMARY KEY, sha256 TEXT);
CREATE TABLE IF NOT EXISTS run (id TEXT);
"""


def newest_round(db: sqlite3.Connection) -> Round | None:
    """Returns the round that was begun last, or None before the first."""
    query = f"SELECT {', '.join(_FIELDS)} FROM rounds ORDER BY number DESC, attempt DESC LIMIT 1"
    row = db.execute(query).fetchone()
    return row and Round(**dict(zip(_FIELDS, row, strict=True)))


@dataclasses.dataclass(frozen=True)
class Upload:
    """The upload of a device.

    Attributes:
      assignment: Its seat, which is also the seed of `codec`.
      weight: Weight that the device claims.
      loss: Loss that the device claims.
      codec: Codec of the payload.
      payload: The encoded delta.
      sha256: Hash of the request's body, which identifies the upload if it is sent again.
      included: `UploadHeader.included`; the table `sums` keeps it, not `uploads`.
    """

    assignment: str
    weight: float
    loss: float
    codec: str
    payload: bytes
    sha256: str = ""
    included: Mapping[str, str] | None = None


class Database:
    """The file, mode 0600, created if it does not exist. Used by one thread at a time.

    Raises:
      ProgramError: If it is not such a file, or cannot be written.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        if not path.exists():
            files.write_atomically(path, [], mode=files.OWNER_ONLY)  # an empty database
        with self._errors_on_one_line():
            self._db = sqlite3.connect(
                path, check_same_thread=False, isolation_level=None, cached_statements=64
            )
            self.do("PRAGMA journal_mode=WAL")
            self.do("PRAGMA secure_delete=ON")
            self.do("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._db.in_transaction

    def do(self, statement: str, *values: Any) -> None:
        """Runs a statement without a result."""
        self._db.execute(statement, values)

    def put(self, table: str, values: dict[str, Any]) -> None:
        """Writes a row, by the names of its columns. Replaces a row with the same key."""
        names = ", ".join(values)
        places = ", ".join(f":{name}" for name in values)
        self._db.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", values)

    def newest_round(self) -> Round | None:
        """Returns the round that was begun last, or None before the first."""
        with self._errors_on_one_line():
            return newest_round(self._db)

    def one(self, query: str, *values: Any) -> Any:
        """Returns the first row of an answer, or None."""
        with self._errors_on_one_line():
            return self._db.execute(query, values).fetchone()

    def all(self, query: str, *values: Any) -> list[Any]:
        """Returns all rows of an answer."""
        with self._errors_on_one_line():
            return self._db.execute(query, values).fetchall()

    def forget(self) -> None:
        """Removes deleted data from SQLite's log, too."""
        with self._errors_on_one_line():
            self.do("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextlib.contextmanager
    def transaction(
        self, *, is_forced: bool, committed_error: type[BaseException]
    ) -> Iterator[None]:
        """Runs a transaction. With `is_forced`, it is on disk when it ends.

        If an error of type `committed_error` passes through, the changes before it are committed.
        All other errors roll the transaction back.
        """
        with self._errors_on_one_line():
            self.do(f"PRAGMA synchronous={'FULL' if is_forced else 'NORMAL'}")
            self.do("BEGIN IMMEDIATE")
            try:
                yield
                self.do("COMMIT")
            except committed_error:
                self.do("COMMIT")
                raise
            except BaseException:
                if self.in_transaction:  # after a full disk, SQLite rolls back by itself
                    self.do("ROLLBACK")
                raise

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @contextlib.contextmanager
    def _errors_on_one_line(self) -> Iterator[None]:
        """Reports a full disk or a damaged file as one line."""
        try:
            yield
        except sqlite3.Error as error:
            raise ProgramError(
                f"Cannot write {self.path}: {error}. Accepted uploads are not lost. Free some "
                "space or restore the file, then run the same command again."
            ) from error
