"""Rounds, seats and uploads in SQLite. Every answer is on disk before it is sent.

Each method is one transaction. One transaction both counts an upload and closes a round that has
enough of them, so that a kill leaves either both or neither. Uploads are forced to disk. Seats
survive a kill of the process; after a power cut devices ask again for lost seats.

The store has `tokens.digest` of each device, and its key in a secure sum until the round is
released. Uploads are deleted when their round is released. Seats are deleted when the next round is
released, or when the minimum separation is over. The file has mode 0600.
"""

import dataclasses
import pathlib
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.rounds import Round, RoundSettings
from tff_keyboard_fleet.round_server.tables import FILE, Database, Upload
from tff_keyboard_fleet.wire.messages import Refused
from tff_keyboard_fleet.wire.tokens import Participation

_SEAT = "FROM seats WHERE assignment=? AND number=? AND device=?"


class RoundStore:
    """The rounds of a run. Every method may be called in any thread.

    Args:
      directory: Folder of `FILE`, which is created if it does not exist.
      round_settings: Rules of the rounds.
      clock: Returns seconds since 1970.

    Attributes:
      run_id: Random name of the run in tokens.

    Raises:
      ProgramError: If the file cannot be opened or written.
    """

    def __init__(
        self, directory: pathlib.Path, round_settings: RoundSettings, clock: Callable[[], float]
    ):
        self.round_settings = round_settings
        self._clock = clock
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._is_stopped = False
        self._db = Database(directory / FILE)
        run = self._db.one("SELECT id FROM run")
        self.run_id: str = run[0] if run else secrets.token_hex(8)
        if not run:
            self._db.put("run", {"id": self.run_id})
        self._round = self._db.newest_round()
        if self._round is not None:
            with self._transaction():
                self._put(rounds.begun_again(self._round, round_settings, clock()))

    @property
    def round(self) -> Round | None:
        """The newest round at the current time; None before the first."""
        with self._lock:
            self._tick()
            return self._round

    def open_round(self, number: int, model: str, plan: str) -> None:
        """Lets devices into a round, after the previous round was released.

        A round that is already open or aggregating continues.

        Raises:
          RunDirectoryError: If devices already got another model for this round, because the run
            was computed again with another result.
        """
        with self._transaction():
            newest = self._round
            if newest is None or newest.number < number:
                self._put(Round(number=number, model=model, plan=plan))
            elif newest.number > number or newest.model != model:
                raise RunDirectoryError(
                    f"{self._db.path}: round {newest.number} was sent to devices with a different "
                    f"model than round {number} has now. Restore the checkpoints of its start, or "
                    "use another run directory."
                )
            elif newest.plan != plan and newest.state in rounds.OPEN:
                # All devices of a secure sum follow one plan. With another plan, it starts again.
                is_over = self.round_settings.sums is not None and newest.begun is not None
                state = rounds.ABANDONED if is_over else newest.state
                self._put(dataclasses.replace(newest, plan=plan, state=state))

    def take_seat(self, device: bytes, assignment: str) -> tuple[Round, str] | None:
        """Gives a device a seat in the newest round, if the round still takes devices.

        Args:
          device: `tokens.digest` of the device.
          assignment: A new random id, used if the device gets a new seat.

        Returns:
          The round as it was before this seat, and the id of the seat: `assignment`, or the earlier
          id if the device has a seat of this attempt and has not uploaded. None if no round is
          open, or all its seats are taken.

        Raises:
          Refused: "too_soon", if the device uploaded in this round, or in one of the
            `separation` - 1 rounds before it, abandoned attempts included.
        """
        with self._lock:
            self._tick()
            current = self._round
            if current is None or current.state not in rounds.OPEN:
                return None
            query = "SELECT assignment, place FROM seats WHERE number=? AND attempt=? AND device=?"
            seat = self._db.one(query, current.number, current.attempt, device)
            if seat and seat[1] is None:
                return current, seat[0]
            if seat or self._took_part(device, current.number):
                raise Refused(
                    "too_soon", f"took part less than {self.round_settings.separation} rounds ago"
                )
            if current.state != rounds.SELECTING:
                return None
            with self._transaction():
                seat = {
                    "assignment": assignment,
                    "number": current.number,
                    "attempt": current.attempt,
                }
                self._db.put("seats", {**seat, "device": device})
                self._put(rounds.with_seat(current, self.round_settings, self._clock()))
            return current, assignment

    def is_too_soon(self, took_part: Participation) -> bool:
        """Returns whether the device with this token must wait, also after an abandoned attempt."""
        with self._lock:
            current = self._round
            return (
                current is not None
                and took_part.round > current.number - self.round_settings.separation
            )

    def has_seat(self, number: int, device: bytes, assignment: str) -> bool:
        """Returns whether the seat belongs to the device in any attempt at the round."""
        with self._lock:
            return self._db.one(f"SELECT 1 {_SEAT}", assignment, number, device) is not None

    def accept(self, number: int, device: bytes, upload: Upload) -> tuple[Participation, int]:
        """Stores an upload, and returns its attempt and its position in the round.

        The same upload again has the same answer until the next round is released, also after its
        round is over.

        Raises:
          Refused: "unknown_round", if the device has no such seat; "replay", if it sent another
            upload before; "late" or "surplus", if the round is closed.
        """
        with self._transaction(is_forced=True):
            self._tick()
            columns = "attempt, place, sha256, chosen, weight, loss"
            attempt, number_in_order, sha256, is_needed, *weight_and_loss = self._seat(
                columns, number, device, upload.assignment
            )
            if number_in_order is not None:
                if sha256 != upload.sha256:
                    raise Refused("replay", "this seat already has a different upload")
                return Participation("", number, attempt), number_in_order
            current = self._round
            assert current is not None
            if (current.number, current.attempt) != (
                number,
                attempt,
            ) or current.state not in rounds.OPEN:
                raise self._closed(number, attempt)
            if self.round_settings.top is not None:
                if not is_needed:
                    raise Refused("surplus", "the round does not need this upload")
                weight, loss = weight_and_loss
                upload = dataclasses.replace(upload, weight=weight, loss=loss)
            self._take(upload)
            number_in_order = current.accepted + 1
            self._db.do(
                "UPDATE seats SET place=?, sha256=? WHERE assignment=?",
                number_in_order,
                upload.sha256,
                upload.assignment,
            )
            row = {"number": number, "attempt": attempt, "place": number_in_order, **vars(upload)}
            del row["sha256"], row["included"]
            self._db.put("uploads", row)
            self._put(rounds.with_upload(current, self.round_settings))
            return Participation("", number, attempt), number_in_order

    def tell_loss(
        self, number: int, device: bytes, assignment: str, weight: float, loss: float
    ) -> str:
        """Stores the loss of a seat, and returns whether it shall upload: "yes", "no" or "wait".

        Only the first loss of a seat counts. Losses that arrive after the uploading devices were
        chosen do not count.

        Raises:
          Refused: "unknown_round"; "late", if the round is closed.
        """
        with self._transaction():
            self._tick()
            attempt, recorded_loss = self._seat("attempt, loss", number, device, assignment)
            current = self._round
            assert current is not None
            if (current.number, current.attempt) != (
                number,
                attempt,
            ) or current.state not in rounds.OPEN:
                raise self._closed(number, attempt)
            if recorded_loss is None and not current.wanted:
                told = "UPDATE seats SET weight=?, loss=? WHERE assignment=?"
                self._db.do(told, weight, loss, assignment)
                self._put(rounds.with_loss(current, self.round_settings))
            (is_needed,) = self._db.one("SELECT chosen FROM seats WHERE assignment=?", assignment)
            assert self._round is not None
            return "yes" if is_needed else "no" if self._round.wanted else "wait"

    def told_only(self, number: int, attempt: int, limit: int) -> list[tuple[float, float]]:
        """Returns `(weight, loss)` of the `limit` best seats with a loss that were not chosen."""
        with self._lock:
            return self._db.all(
                "SELECT weight, loss FROM seats WHERE number=? AND attempt=? AND loss IS NOT NULL "
                "AND NOT chosen ORDER BY loss, assignment LIMIT ?",
                number,
                attempt,
                limit,
            )

    def wait_for_uploads(self, number: int) -> Round | None:
        """Waits until round `number` aggregates, and returns it; None if `stop` was called."""
        with self._changed:
            while not self._is_stopped:
                self._tick()
                current = self._round
                if (
                    current is not None
                    and current.number == number
                    and current.state == rounds.AGGREGATING
                ):
                    return current
                self._changed.wait(0.5)
        return None

    def uploads(self, number: int, attempt: int) -> Iterator[Upload]:
        """Yields the uploads of an attempt in the order in which they were accepted."""
        with self._lock:
            query = "SELECT place FROM uploads WHERE number=? AND attempt=? ORDER BY place"
            positions = self._db.all(query, number, attempt)
        query = (
            "SELECT assignment, weight, loss, codec, payload FROM uploads "
            "WHERE number=? AND attempt=? AND place=?"
        )
        for (position,) in positions:  # one at a time, because all uploads may not fit in memory
            with self._lock:
                row = self._db.one(query, number, attempt, position)
            yield Upload(*row)

    def keep_model(self, number: int, sha256: str) -> None:
        """Notes the weights after round `number`, before its release. 0 is the initial model."""
        with self._transaction(is_forced=True):
            self._db.put("models", {"number": number, "sha256": sha256})

    def model_after(self, number: int) -> str:
        """Returns the SHA-256 of the weights after a round.

        Raises:
          RunDirectoryError: If there are none.
        """
        with self._lock:
            row = self._db.one("SELECT sha256 FROM models WHERE number=?", number)
        if row is None:
            raise files.damaged(self._db.path, f"it has no model after round {number}")
        return str(row[0])

    def release(self, number: int) -> None:
        """Releases rounds up to `number`, and deletes uploads and seats no longer needed."""
        with self._transaction(is_forced=True):
            released = "UPDATE rounds SET state=? WHERE number<=? AND state!=?"
            self._db.do(released, rounds.RELEASED, number, rounds.ABANDONED)
            self._db.do("DELETE FROM uploads WHERE number<=?", number)
            self._db.do("DELETE FROM sums WHERE number<=?", number)
            # In the next round, number + 1, devices wait that took part in it or in the
            # `separation` - 1 rounds before it. Seats of this round stay, too, because its devices
            # may not have received their answers.
            oldest = min(number + 2 - self.round_settings.separation, number)
            self._db.do("DELETE FROM seats WHERE number<?", oldest)
            self._db.do("DELETE FROM seats WHERE number<? AND place IS NULL", number)
            self._db.do("UPDATE seats SET weight=NULL, loss=NULL WHERE number<=?", number)
            self._round = self._db.newest_round()
        with self._lock:
            self._db.forget()

    def restart_after(self, number: int) -> None:
        """Continues the run after round `number`, whose checkpoint exists.

        Raises:
          RunDirectoryError: If a later round was released, so that the run has lost a checkpoint.
        """
        with self._lock:
            (released,) = self._db.one(
                "SELECT max(number) FROM rounds WHERE state=?", rounds.RELEASED
            )
        if released is not None and released > number:
            raise RunDirectoryError(
                f"{self._db.path}: round {released} was released, but the checkpoints end "
                f"with round {number}, so devices would get two models of one round. Restore the "
                "checkpoints, or use another run directory."
            )
        self.release(number)

    def stop(self) -> None:
        """Ends a waiting `wait_for_uploads`."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Closes the file."""
        self.stop()
        with self._lock:
            self._db.close()

    def _seat(self, columns: str, number: int, device: bytes, assignment: str) -> tuple[Any, ...]:
        """Returns columns of a device's seat.

        Raises:
          Refused: "unknown_round", if it has no such seat.
        """
        row: tuple[Any, ...] | None = self._db.one(
            f"SELECT {columns} {_SEAT}", assignment, number, device
        )
        if row is None:
            raise Refused("unknown_round", "no seat of this device in this round")
        return row

    def _take(self, upload: Upload) -> None:
        """Processes an upload before it counts. A secure sum adds it."""

    def _took_part(self, device: bytes, number: int) -> bool:
        # Also in an abandoned attempt: devices keep a record and refuse a second part in a round.
        query = "SELECT 1 FROM seats WHERE device=? AND place IS NOT NULL AND number>? LIMIT 1"
        return self._db.one(query, device, number - self.round_settings.separation) is not None

    def _closed(self, number: int, attempt: int) -> Refused:
        """Returns the reason why an attempt of a round takes no more uploads."""
        accepted, goal, state = self._db.one(
            "SELECT accepted, wanted, state FROM rounds WHERE number=? AND attempt=?",
            number,
            attempt,
        )
        if state != rounds.ABANDONED and accepted >= (goal or self.round_settings.goal):
            return Refused("surplus", "the round has all the uploads it needs")
        return Refused("late", "the deadline of the round has passed")

    def _tick(self) -> None:
        """Advances the newest round to the current time, in a transaction."""
        newest = self._round
        if newest is None:
            return
        current = rounds.at(newest, self.round_settings, self._clock())
        if current != newest:
            with self._transaction():
                self._put(current)

    def _put(self, current: Round) -> None:
        """Writes the newest round in a transaction.

        After an abandoned round, the next attempt follows.
        """
        closed = self._clock() if current.state not in rounds.OPEN else None
        self._db.put("rounds", {**vars(current), "closed": closed})
        previous, self._round = self._round, current
        if current.wanted and previous is not None and not previous.wanted:
            self._db.do(
                "UPDATE seats SET chosen=1 WHERE assignment IN (SELECT assignment FROM seats WHERE "
                "number=? AND attempt=? AND loss IS NOT NULL ORDER BY loss, assignment LIMIT ?)",
                current.number,
                current.attempt,
                current.wanted,
            )
        if current.state == rounds.ABANDONED:
            of_attempt = (current.number, current.attempt)
            self._db.do("DELETE FROM uploads WHERE number=? AND attempt=?", *of_attempt)
            self._db.do("DELETE FROM sums WHERE number=? AND attempt=?", *of_attempt)
            self._put(rounds.next_attempt(current))
        self._changed.notify_all()

    @contextmanager
    def _transaction(self, *, is_forced: bool = False) -> Iterator[None]:
        """Runs a transaction. With `is_forced`, it is on disk when it ends.

        A nested transaction is part of the outer one. If a request is refused, changes by the clock
        remain.
        """
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            before = self._round
            try:
                with self._db.transaction(is_forced=is_forced, committed_error=Refused):
                    yield
            except Refused:
                raise
            except BaseException:
                self._round = before
                raise
