"""Rounds, seats and uploads in SQLite: one writer, and nothing is answered that is not on disk.

Each method is one transaction. That an upload counts and that its round has enough of them are the
same one, so a kill leaves either both or neither. Uploads are forced to disk; seats survive a kill
of the process, and what a power cut takes of them is asked for again.

Of a device there is `tokens.digest` alone, of a round's uploads nothing once it is released, and of
who took part nothing once the minimum separation is over. The file has mode 0600.
"""

import dataclasses
import pathlib
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tff_keyboard.round_server import rounds
from tff_keyboard.round_server.rounds import Round, Terms
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError, RunDirectoryError
from tff_keyboard.wire.messages import Refused
from tff_keyboard.wire.tokens import Participation

FILE = "rounds.sqlite"

FIELDS = "number, attempt, state, model, plan, begun, seats, accepted"  # of `Round`
_SEAT = "FROM seats WHERE assignment=? AND number=? AND device=?"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS rounds (
  number INTEGER, attempt INTEGER, state TEXT, model TEXT, plan TEXT, begun REAL, seats INTEGER,
  accepted INTEGER, closed REAL, PRIMARY KEY (number, attempt));
CREATE TABLE IF NOT EXISTS seats (
  assignment TEXT PRIMARY KEY, number INTEGER, attempt INTEGER, device BLOB, place INTEGER,
  sha256 TEXT, UNIQUE (number, attempt, device)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS seats_of_devices ON seats (device) WHERE place IS NOT NULL;
CREATE TABLE IF NOT EXISTS uploads (
  number INTEGER, attempt INTEGER, place INTEGER, weight REAL, loss REAL, codec TEXT,
  assignment TEXT, payload BLOB, PRIMARY KEY (number, attempt, place));
CREATE TABLE IF NOT EXISTS models (number INTEGER PRIMARY KEY, sha256 TEXT);
CREATE TABLE IF NOT EXISTS run (id TEXT);
"""


@dataclasses.dataclass(frozen=True)
class Upload:
    """What a device sent.

    Attributes:
      assignment: Its seat; the seed of `codec`.
      sha256: Of the request's body, which tells the same upload from another one.
    """

    assignment: str
    weight: float
    loss: float
    codec: str
    payload: bytes
    sha256: str = ""


class RoundStore:
    """The rounds of a run; every method may be called in any thread.

    Args:
      directory: Where `FILE` is, or is made.
      clock: Seconds since 1970.

    Attributes:
      run_id: Random; names the run in tokens.

    Raises:
      ProgramError: The file cannot be opened or written.
    """

    def __init__(self, directory: pathlib.Path, terms: Terms, clock: Callable[[], float]):
        self.terms = terms
        self._clock = clock
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._is_stopped = False
        path = directory / FILE
        if not path.exists():
            files.write_atomically(path, [], mode=files.OWNER_ONLY)  # an empty database
        with _told(path):
            self._db = sqlite3.connect(
                path, check_same_thread=False, isolation_level=None, cached_statements=64
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA secure_delete=ON")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            found = self._one("SELECT id FROM run") or (secrets.token_hex(8),)
            self._db.execute("INSERT INTO run SELECT ? WHERE NOT EXISTS (SELECT 1 FROM run)", found)
        self.run_id: str = found[0]
        self._path = path
        self._round = self._newest()
        if self._round is not None:
            with self._transaction():
                self._put(rounds.begun_again(self._round, clock()))

    @property
    def round(self) -> Round | None:
        """The newest round as the clock has it now; None before the first."""
        with self._lock:
            self._tick()
            return self._round

    def open_round(self, number: int, model: str, plan: str) -> None:
        """Lets devices into a round, once the one before it is released.

        A round that is open or aggregating already goes on.

        Raises:
          RunDirectoryError: It went out with another model: the run was computed anew and gave
            other bits.
        """
        with self._transaction():
            known = self._round
            if known is None or known.number < number:
                self._put(Round(number=number, model=model, plan=plan))
            elif known.number > number or known.model != model:
                raise RunDirectoryError(
                    f"{self._path}: round {known.number} went out to devices with another model "
                    f"than round {number} has now. Restore the checkpoints it was begun with, or "
                    "use another run directory."
                )
            elif known.plan != plan and known.state in rounds.OPEN:
                self._put(dataclasses.replace(known, plan=plan))

    def take_seat(self, device: bytes, assignment: str) -> tuple[Round, str] | None:
        """The round and the assignment of a device; None: there is no seat for it.

        A device that has a seat without an upload is given it again.

        Raises:
          Refused: "too_soon": it took part less than the separation ago.
        """
        with self._lock:
            self._tick()
            now = self._round
            if now is None or now.state not in rounds.OPEN:
                return None
            query = "SELECT assignment, place FROM seats WHERE number=? AND attempt=? AND device=?"
            seat = self._one(query, now.number, now.attempt, device)
            if seat and seat[1] is None:
                return now, seat[0]
            if seat or self._took_part(device, now.number):
                raise Refused("too_soon", f"took part less than {self.terms.separation} rounds ago")
            if now.state != rounds.SELECTING:
                return None
            with self._transaction():
                self._db.execute(
                    "INSERT INTO seats VALUES (?,?,?,?,NULL,NULL)",
                    (assignment, now.number, now.attempt, device),
                )
                self._put(rounds.with_seat(now, self.terms, self._clock()))
            return now, assignment

    def is_too_soon(self, took_part: Participation) -> bool:
        """Whether the device of a token of this run has to wait; not after an abandoned round."""
        with self._lock:
            now = self._round
            if now is None or took_part.round <= now.number - self.terms.separation:
                return False
            query = "SELECT state FROM rounds WHERE number=? AND attempt=?"
            found = self._one(query, took_part.round, took_part.attempt)
            return found is None or found[0] != rounds.ABANDONED

    def has_seat(self, number: int, device: bytes, assignment: str) -> bool:
        """Whether the seat is that of the device in any attempt at the round."""
        with self._lock:
            return self._one(f"SELECT 1 {_SEAT}", assignment, number, device) is not None

    def accept(self, number: int, device: bytes, upload: Upload) -> tuple[Participation, int]:
        """Keeps an upload: which attempt it counts for, and its place in the round.

        The same upload again has the same answer, also when its round is over.

        Raises:
          Refused: "unknown_round": the device has no such seat; "replay": it sent another upload
            before; "late" or "surplus": the round is closed.
        """
        with self._transaction(is_forced=True):
            self._tick()
            seat = self._one(
                f"SELECT attempt, place, sha256 {_SEAT}", upload.assignment, number, device
            )
            if seat is None:
                raise Refused("unknown_round", "no seat of this device in this round")
            attempt, place, sha256 = seat
            if place is not None:
                if sha256 != upload.sha256:
                    raise Refused("replay", "this seat has its upload already, which is another")
                return Participation("", number, attempt), place
            now = self._round
            assert now is not None
            if (now.number, now.attempt) != (number, attempt) or now.state not in rounds.OPEN:
                raise self._closed(number, attempt)
            place = now.accepted + 1
            self._db.execute(
                "UPDATE seats SET place=?, sha256=? WHERE assignment=?",
                (place, upload.sha256, upload.assignment),
            )
            self._db.execute(
                "INSERT INTO uploads VALUES (:number, :attempt, :place, :weight, :loss, :codec, "
                ":assignment, :payload)",
                {"number": number, "attempt": attempt, "place": place, **vars(upload)},
            )
            self._put(rounds.with_upload(now, self.terms))
            return Participation("", number, attempt), place

    def wait_for_uploads(self, number: int) -> Round | None:
        """Waits until round `number` aggregates; the round, or None if `stop` was called."""
        with self._changed:
            while not self._is_stopped:
                self._tick()
                now = self._round
                if now is not None and now.number == number and now.state == rounds.AGGREGATING:
                    return now
                self._changed.wait(0.5)
        return None

    def uploads(self, number: int, attempt: int) -> Iterator[Upload]:
        """The uploads of an attempt in the order in which they were accepted."""
        with self._lock:
            places = self._db.execute(
                "SELECT place FROM uploads WHERE number=? AND attempt=? ORDER BY place",
                (number, attempt),
            ).fetchall()
        query = (
            "SELECT assignment, weight, loss, codec, payload FROM uploads "
            "WHERE number=? AND attempt=? AND place=?"
        )
        for (place,) in places:  # one at a time: a round of them may not fit in memory
            with self._lock:
                found = self._one(query, number, attempt, place)
            yield Upload(*found)

    def keep_model(self, number: int, sha256: str) -> None:
        """Notes the weights after round `number`, before anything of it is released; 0: initial."""
        with self._transaction(is_forced=True):
            self._db.execute("INSERT OR REPLACE INTO models VALUES (?,?)", (number, sha256))

    def model_after(self, number: int) -> str:
        """SHA-256 of the weights after a round.

        Raises:
          RunDirectoryError: There are none.
        """
        with self._lock:
            found = self._one("SELECT sha256 FROM models WHERE number=?", number)
        if found is None:
            raise files.damaged(self._path, f"it knows no model after round {number}")
        return str(found[0])

    def release(self, number: int) -> None:
        """Rounds up to `number` are on disk: forgets uploads, and devices that may come again."""
        with self._transaction(is_forced=True):
            self._db.execute(
                "UPDATE rounds SET state=? WHERE number<=? AND state!=?",
                (rounds.RELEASED, number, rounds.ABANDONED),
            )
            self._db.execute("DELETE FROM uploads WHERE number<=?", (number,))
            # Of the next round, number + 1, those wait who took part in it or the
            # `separation` - 1 rounds before it.
            self._db.execute(
                "DELETE FROM seats WHERE number<=?", (number + 1 - self.terms.separation,)
            )
            self._db.execute("DELETE FROM seats WHERE number<? AND place IS NULL", (number,))
            self._round = self._newest()
        with self._lock:  # what was deleted is in the log of SQLite, too
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def restart_after(self, number: int) -> None:
        """The run goes on after round `number`, which its checkpoint holds.

        Raises:
          RunDirectoryError: A later one was released: the run lost a checkpoint.
        """
        with self._lock:
            (released,) = self._one("SELECT max(number) FROM rounds WHERE state=?", rounds.RELEASED)
        if released is not None and released > number:
            raise RunDirectoryError(
                f"{self._path}: round {released} was released, but the checkpoints end with round "
                f"{number}: devices would get two models of one round. Restore the checkpoints, or "
                "use another run directory."
            )
        self.release(number)

    def stop(self) -> None:
        """Ends `wait_for_uploads`."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Closes the file."""
        self.stop()
        with self._lock:
            self._db.close()

    def _took_part(self, device: bytes, number: int) -> bool:
        found = self._one(
            "SELECT 1 FROM seats JOIN rounds USING (number, attempt) WHERE device=? "
            "AND place IS NOT NULL AND number>? AND state!=? LIMIT 1",
            device,
            number - self.terms.separation,
            rounds.ABANDONED,
        )
        return found is not None

    def _one(self, query: str, *values: object) -> Any:
        return self._db.execute(query, values).fetchone()

    def _closed(self, number: int, attempt: int) -> Refused:
        accepted, state = self._one(
            "SELECT accepted, state FROM rounds WHERE number=? AND attempt=?", number, attempt
        )
        if state != rounds.ABANDONED and accepted >= self.terms.goal:
            return Refused("surplus", "the round has all the uploads it needs; thank you")
        return Refused("late", "the deadline of the round is over")

    def _tick(self) -> None:
        """What the clock did to the newest round; in a transaction of its own if there is none."""
        known = self._round
        if known is None:
            return
        now = rounds.at(known, self.terms, self._clock())
        if now != known:
            with self._transaction():
                self._put(now)

    def _put(self, now: Round) -> None:
        """Writes the newest round, in a transaction; an abandoned one is followed by the next."""
        closed = self._clock() if now.state not in rounds.OPEN else None
        self._db.execute(
            "INSERT OR REPLACE INTO rounds VALUES (:number, :attempt, :state, :model, :plan, "
            ":begun, :seats, :accepted, :closed)",
            {**vars(now), "closed": closed},
        )
        self._round = now
        if now.state == rounds.ABANDONED:
            of_attempt = (now.number, now.attempt)
            self._db.execute("DELETE FROM uploads WHERE number=? AND attempt=?", of_attempt)
            self._put(rounds.next_attempt(now))
        self._changed.notify_all()

    def _newest(self) -> Round | None:
        found = self._one(f"SELECT {FIELDS} FROM rounds ORDER BY number DESC, attempt DESC LIMIT 1")
        return found and Round(**dict(zip(FIELDS.split(", "), found, strict=True)))

    @contextmanager
    def _transaction(self, *, is_forced: bool = False) -> Iterator[None]:
        """All or nothing; what is forced is on the disk when it ends. Nested: a part of the outer.

        What the clock did stays, also where a request is then refused.
        """
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            before = self._round
            with _told(self._path):
                if is_forced:
                    self._db.execute("PRAGMA synchronous=FULL")
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self._db.execute("COMMIT")
                except Refused:
                    self._db.execute("COMMIT")
                    raise
                except BaseException:
                    self._round = before
                    self._db.execute("ROLLBACK")
                    raise
                finally:
                    if is_forced:
                        self._db.execute("PRAGMA synchronous=NORMAL")


@contextmanager
def _told(path: pathlib.Path) -> Iterator[None]:
    """A full disk or a damaged file in one line."""
    try:
        yield
    except sqlite3.Error as error:
        raise ProgramError(
            f"Cannot write {path}: {error}. Nothing that was accepted is lost: free some space or "
            "restore the file, then run the same command again."
        ) from error
