"""The file of the rounds: its tables, its transactions, and what a row of uploads is."""

import contextlib
import dataclasses
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from tff_keyboard.round_server.rounds import Round
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError

FILE = "rounds.sqlite"
_FIELDS = [field.name for field in dataclasses.fields(Round)]

# Of `seats`: weight and loss are told before an upload where the plan has a phase for it, `chosen`
# is 1 for those who then upload; `place` is that of the upload among the accepted ones. `sums` has
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
    """The round that was begun last; None before the first."""
    query = f"SELECT {', '.join(_FIELDS)} FROM rounds ORDER BY number DESC, attempt DESC LIMIT 1"
    found = db.execute(query).fetchone()
    return found and Round(**dict(zip(_FIELDS, found, strict=True)))


@dataclasses.dataclass(frozen=True)
class Upload:
    """What a device sent.

    Attributes:
      assignment: Its seat; the seed of `codec`.
      sha256: Hash of the request's body, which tells the same upload from another one.
    """

    assignment: str
    weight: float
    loss: float
    codec: str
    payload: bytes
    sha256: str = ""


class Database:
    """The file, mode 0600, made where it is missing; used by one thread at a time.

    Raises:
      ProgramError: It is no such file, or cannot be written.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        if not path.exists():
            files.write_atomically(path, [], mode=files.OWNER_ONLY)  # an empty database
        with self._told():
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
        """A statement without a result."""
        self._db.execute(statement, values)

    def put(self, table: str, values: dict[str, Any]) -> None:
        """Writes a row by the names of its columns, in place of one with the same key."""
        names = ", ".join(values)
        places = ", ".join(f":{name}" for name in values)
        self._db.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", values)

    def newest_round(self) -> Round | None:
        """As the function of this name."""
        with self._told():
            return newest_round(self._db)

    def one(self, query: str, *values: Any) -> Any:
        """The first row of an answer; None: there is none."""
        with self._told():
            return self._db.execute(query, values).fetchone()

    def all(self, query: str, *values: Any) -> list[Any]:
        """All rows of an answer."""
        with self._told():
            return self._db.execute(query, values).fetchall()

    def forget(self) -> None:
        """Takes out of the log of SQLite, too, what was deleted."""
        with self._told():
            self.do("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextlib.contextmanager
    def transaction(self, *, is_forced: bool, kept: type[BaseException]) -> Iterator[None]:
        """All or nothing; what is forced is on the disk when it ends. An error `kept` passes, and
        what was done before it stays."""
        with self._told():
            self.do(f"PRAGMA synchronous={'FULL' if is_forced else 'NORMAL'}")
            self.do("BEGIN IMMEDIATE")
            try:
                yield
                self.do("COMMIT")
            except kept:
                self.do("COMMIT")
                raise
            except BaseException:
                if self.in_transaction:  # SQLite itself takes back what a full disk ends
                    self.do("ROLLBACK")
                raise

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """A full disk or a damaged file in one line."""
        try:
            yield
        except sqlite3.Error as error:
            raise ProgramError(
                f"Cannot write {self.path}: {error}. Nothing that was accepted is lost: free some "
                "space or restore the file, then run the same command again."
            ) from error
