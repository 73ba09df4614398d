"""Rounds, seats and uploads in SQLite: one writer, and nothing is answered that is not on disk.

Each method is one transaction. That an upload counts and that its round has enough of them are the
same one, so a kill leaves either both or neither. Uploads are forced to disk; seats survive a kill
of the process, and what a power cut takes of them is asked for again.

Of a device there is `tokens.digest`, and its key in a secure sum until the round is released; of a
round's uploads nothing is left then, and of who took part nothing once the next round is released,
or the minimum separation is over. The file has mode 0600.
"""

import dataclasses
import pathlib
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tff_keyboard.round_server import rounds
from tff_keyboard.round_server.rounds import Round, Terms
from tff_keyboard.round_server.tables import FILE, Database, Upload
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.wire.messages import Refused
from tff_keyboard.wire.tokens import Participation

_SEAT = "FROM seats WHERE assignment=? AND number=? AND device=?"


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
        self._db = Database(directory / FILE)
        found = self._db.one("SELECT id FROM run")
        self.run_id: str = found[0] if found else secrets.token_hex(8)
        if not found:
            self._db.put("run", {"id": self.run_id})
        self._round = self._db.newest_round()
        if self._round is not None:
            with self._transaction():
                self._put(rounds.begun_again(self._round, terms, clock()))

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
                    f"{self._db.path}: round {known.number} went out to devices with another model "
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
            seat = self._db.one(query, now.number, now.attempt, device)
            if seat and seat[1] is None:
                return now, seat[0]
            if seat or self._took_part(device, now.number):
                raise Refused("too_soon", f"took part less than {self.terms.separation} rounds ago")
            if now.state != rounds.SELECTING:
                return None
            with self._transaction():
                seat = {"assignment": assignment, "number": now.number, "attempt": now.attempt}
                self._db.put("seats", {**seat, "device": device})
                self._put(rounds.with_seat(now, self.terms, self._clock()))
            return now, assignment

    def is_too_soon(self, took_part: Participation) -> bool:
        """Whether the device of a token of this run has to wait; not after an abandoned round."""
        with self._lock:
            now = self._round
            if now is None or took_part.round <= now.number - self.terms.separation:
                return False
            query = "SELECT state FROM rounds WHERE number=? AND attempt=?"
            found = self._db.one(query, took_part.round, took_part.attempt)
            return found is None or found[0] != rounds.ABANDONED

    def has_seat(self, number: int, device: bytes, assignment: str) -> bool:
        """Whether the seat is that of the device in any attempt at the round."""
        with self._lock:
            return self._db.one(f"SELECT 1 {_SEAT}", assignment, number, device) is not None

    def accept(self, number: int, device: bytes, upload: Upload) -> tuple[Participation, int]:
        """Keeps an upload: which attempt it counts for, and its place in the round.

        The same upload again has the same answer, also when its round is over, until the next one
        is released.

        Raises:
          Refused: "unknown_round": the device has no such seat; "replay": it sent another upload
            before; "late" or "surplus": the round is closed.
        """
        with self._transaction(is_forced=True):
            self._tick()
            columns = "attempt, place, sha256, chosen, weight, loss"
            attempt, place, sha256, chosen, *told = self._seat(
                columns, number, device, upload.assignment
            )
            if place is not None:
                if sha256 != upload.sha256:
                    raise Refused("replay", "this seat has its upload already, which is another")
                return Participation("", number, attempt), place
            now = self._round
            assert now is not None
            if (now.number, now.attempt) != (number, attempt) or now.state not in rounds.OPEN:
                raise self._closed(number, attempt)
            if self.terms.top is not None:
                if not chosen:
                    raise Refused("surplus", "the round does without this upload")
                upload = dataclasses.replace(upload, weight=told[0], loss=told[1])
            self._take(upload)
            place = now.accepted + 1
            self._db.do(
                "UPDATE seats SET place=?, sha256=? WHERE assignment=?",
                place,
                upload.sha256,
                upload.assignment,
            )
            row = {"number": number, "attempt": attempt, "place": place, **vars(upload)}
            del row["sha256"]
            self._db.put("uploads", row)
            self._put(rounds.with_upload(now, self.terms))
            return Participation("", number, attempt), place

    def tell_loss(
        self, number: int, device: bytes, assignment: str, weight: float, loss: float
    ) -> str:
        """Notes what a seat tells before it uploads; whether it is to: "yes", "no" or "wait".

        What a seat told first counts, and nothing that is told once it is decided who uploads.

        Raises:
          Refused: "unknown_round"; "late": the round is closed.
        """
        with self._transaction():
            self._tick()
            attempt, known = self._seat("attempt, loss", number, device, assignment)
            now = self._round
            assert now is not None
            if (now.number, now.attempt) != (number, attempt) or now.state not in rounds.OPEN:
                raise self._closed(number, attempt)
            if known is None and not now.wanted:
                told = "UPDATE seats SET weight=?, loss=? WHERE assignment=?"
                self._db.do(told, weight, loss, assignment)
                self._put(rounds.with_loss(now, self.terms))
            (chosen,) = self._db.one("SELECT chosen FROM seats WHERE assignment=?", assignment)
            assert self._round is not None
            return "yes" if chosen else "no" if self._round.wanted else "wait"

    def told_only(self, number: int, attempt: int, most: int) -> list[tuple[float, float]]:
        """`(weight, loss)` of the `most` best seats that told a loss and were not to upload."""
        with self._lock:
            return self._db.all(
                "SELECT weight, loss FROM seats WHERE number=? AND attempt=? AND loss IS NOT NULL "
                "AND NOT chosen ORDER BY loss, assignment LIMIT ?",
                number,
                attempt,
                most,
            )

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
            query = "SELECT place FROM uploads WHERE number=? AND attempt=? ORDER BY place"
            places = self._db.all(query, number, attempt)
        query = (
            "SELECT assignment, weight, loss, codec, payload FROM uploads "
            "WHERE number=? AND attempt=? AND place=?"
        )
        for (place,) in places:  # one at a time: a round of them may not fit in memory
            with self._lock:
                found = self._db.one(query, number, attempt, place)
            yield Upload(*found)

    def keep_model(self, number: int, sha256: str) -> None:
        """Notes the weights after round `number`, before anything of it is released; 0: initial."""
        with self._transaction(is_forced=True):
            self._db.put("models", {"number": number, "sha256": sha256})

    def model_after(self, number: int) -> str:
        """SHA-256 of the weights after a round.

        Raises:
          RunDirectoryError: There are none.
        """
        with self._lock:
            found = self._db.one("SELECT sha256 FROM models WHERE number=?", number)
        if found is None:
            raise files.damaged(self._db.path, f"it knows no model after round {number}")
        return str(found[0])

    def release(self, number: int) -> None:
        """Rounds up to `number` are on disk: forgets uploads, and devices that may come again."""
        with self._transaction(is_forced=True):
            released = "UPDATE rounds SET state=? WHERE number<=? AND state!=?"
            self._db.do(released, rounds.RELEASED, number, rounds.ABANDONED)
            self._db.do("DELETE FROM uploads WHERE number<=?", number)
            self._db.do("DELETE FROM sums WHERE number<=?", number)
            # Of the next round, number + 1, those wait who took part in it or the
            # `separation` - 1 rounds before it. An answer of this round may have been lost.
            oldest = min(number + 2 - self.terms.separation, number)
            self._db.do("DELETE FROM seats WHERE number<?", oldest)
            self._db.do("DELETE FROM seats WHERE number<? AND place IS NULL", number)
            self._db.do("UPDATE seats SET weight=NULL, loss=NULL WHERE number<=?", number)
            self._round = self._db.newest_round()
        with self._lock:
            self._db.forget()

    def restart_after(self, number: int) -> None:
        """The run goes on after round `number`, which its checkpoint holds.

        Raises:
          RunDirectoryError: A later one was released: the run lost a checkpoint.
        """
        with self._lock:
            (released,) = self._db.one(
                "SELECT max(number) FROM rounds WHERE state=?", rounds.RELEASED
            )
        if released is not None and released > number:
            raise RunDirectoryError(
                f"{self._db.path}: round {released} was released, but the checkpoints end with "
                f"round {number}: devices would get two models of one round. Restore the "
                "checkpoints, or use another run directory."
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

    def _seat(self, columns: str, number: int, device: bytes, assignment: str) -> tuple[Any, ...]:
        """Columns of a device's seat; refused as "unknown_round" where it has no such seat."""
        found: tuple[Any, ...] | None = self._db.one(
            f"SELECT {columns} {_SEAT}", assignment, number, device
        )
        if found is None:
            raise Refused("unknown_round", "no seat of this device in this round")
        return found

    def _take(self, upload: Upload) -> None:
        """Looks at an upload that is about to count; a secure sum adds it."""

    def _took_part(self, device: bytes, number: int) -> bool:
        found = self._db.one(
            "SELECT 1 FROM seats JOIN rounds USING (number, attempt) WHERE device=? "
            "AND place IS NOT NULL AND number>? AND state!=? LIMIT 1",
            device,
            number - self.terms.separation,
            rounds.ABANDONED,
        )
        return found is not None

    def _closed(self, number: int, attempt: int) -> Refused:
        accepted, wanted, state = self._db.one(
            "SELECT accepted, wanted, state FROM rounds WHERE number=? AND attempt=?",
            number,
            attempt,
        )
        if state != rounds.ABANDONED and accepted >= (wanted or self.terms.goal):
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
        self._db.put("rounds", {**vars(now), "closed": closed})
        was, self._round = self._round, now
        if now.wanted and was is not None and not was.wanted:
            self._db.do(
                "UPDATE seats SET chosen=1 WHERE assignment IN (SELECT assignment FROM seats WHERE "
                "number=? AND attempt=? AND loss IS NOT NULL ORDER BY loss, assignment LIMIT ?)",
                now.number,
                now.attempt,
                now.wanted,
            )
        if now.state == rounds.ABANDONED:
            of_attempt = (now.number, now.attempt)
            self._db.do("DELETE FROM uploads WHERE number=? AND attempt=?", *of_attempt)
            self._db.do("DELETE FROM sums WHERE number=? AND attempt=?", *of_attempt)
            self._put(rounds.next_attempt(now))
        self._changed.notify_all()

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
            try:
                with self._db.transaction(is_forced=is_forced, kept=Refused):
                    yield
            except Refused:
                raise
            except BaseException:
                self._round = before
                raise
