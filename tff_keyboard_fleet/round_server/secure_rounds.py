"""Rounds with masked uploads. The steps of each secure sum are on disk before they are answered.

    advertise  closes when all seats have sent it, or at 1/2 of the time; seats are given until 1/4
    share      closes when all these devices have sent it, or at 5/8
    report     closes when the report goal is reached, all have reported, or at 7/8: masked uploads
    confirm    is answered to each device when `threshold` of its pairs have confirmed
    unmask     ends when the remaining masks can be removed: the round aggregates

A step that closes by the clock needs the least number of devices. The round is abandoned at the
deadline, or if the shares do not recover the masks. Another attempt starts with new keys. It
excludes devices whose shares were false, or were left out by so many pairs that the rest are too
few.

The `wire.secure_sums.server.Server` of the newest round is only in memory. After a kill, the
messages on disk are replayed in order and give the same state. They are deleted with the round's
uploads.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import Round, RoundSettings
from tff_keyboard_fleet.round_server.tables import Upload
from tff_keyboard_fleet.wire import messages, secure_steps
from tff_keyboard_fleet.wire.messages import Refused
from tff_keyboard_fleet.wire.secure_sums import masks
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError
from tff_keyboard_fleet.wire.secure_sums.messages import Advert, Envelope, Question, Report
from tff_keyboard_fleet.wire.secure_sums.server import Server
from tff_keyboard_fleet.wire.tokens import Participation

# Values of the column `step` of the table `sums`, in addition to the steps of devices.
_CIRCLE, _ENVELOPES, _QUESTIONS = "circle", "envelopes", "questions"  # a step was closed
_REPORT = "report"  # the signatures of a masked upload
_FALSE = "false"  # this seat dealt shares that do not recover its secret
_ENDS = {_CIRCLE: 1 / 2, _ENVELOPES: 5 / 8, _QUESTIONS: 7 / 8}  # as shares of the deadline
_MAX_WAIT_SECONDS = 5


@dataclasses.dataclass
class _Sum:
    """The state of a sum: its server, and the results of the closed steps for each device."""

    server: Server
    adverts: int = 0
    shares: int = 0
    neighbours: Mapping[bytes, Sequence[Advert]] | None = None
    envelopes: Mapping[bytes, Sequence[Envelope]] | None = None
    questions: Mapping[bytes, Question] | None = None


class SecureRoundStore(RoundStore):
    """A `RoundStore` with secure sums; see the module."""

    def __init__(
        self, directory: pathlib.Path, round_settings: RoundSettings, clock: Callable[[], float]
    ):
        self._sum: _Sum | None = None
        self._sum_of: tuple[int, int] | None = None
        self._is_ahead = False  # whether the sum in memory may have changes that are not on disk
        self._total: np.ndarray | None = None
        super().__init__(directory, round_settings, clock)
        if self._round is not None and self._round.state in (*rounds.OPEN, rounds.AGGREGATING):
            self._check_replay(self._round)

    def _check_replay(self, current: Round) -> None:
        """Checks that the recorded steps of an open sum fit the settings."""
        try:
            self._open_sum()
        except SecureSumError as error:
            raise RunDirectoryError(
                f"{self._db.path}: the secure sum of round {current.number} was started with other "
                f"settings ({error}). Restore the old `devices.min_report_fraction` until the "
                "round is released."
            ) from None

    def label(self, round_: Round) -> str:
        """Returns the label of the sum of an attempt at a round. No two sums share one."""
        return f"{self.run_id}/{round_.number}/{round_.attempt}"

    def step(
        self, number: int, device: bytes, sender: bytes, step: str, message: secure_steps.Step
    ) -> secure_steps.Next:
        """Accepts a device's message of a step, once. The same message again has the same answer.

        Args:
          number: Number of the round.
          device: The device's pseudonym.
          sender: The device's Ed25519 key.
          step: Name of the step.
          message: The message.

        Raises:
          Refused: "unknown_round", "late" or "surplus", if it has no seat in this round any more;
            "replay", if it sent another message of this step before; "bad_step", if another step is
            due, or the message does not fit the sum.
        """
        body = messages.encode(message)
        with self._transaction(is_forced=True):
            self._tick()
            attempt, position = self._seat("attempt, place", number, device, message.assignment)
            current = self._round
            assert current is not None
            if (current.number, current.attempt) != (
                number,
                attempt,
            ) or current.state not in rounds.OPEN:
                if position is not None:
                    return secure_steps.Next()  # the sum is complete or lost: the device is done
                raise self._closed(number, attempt)
            if not (isinstance(message, secure_steps.Confirm) and message.signatures is None):
                self._keep(current, sender, step, message, body)
                self._tick()
            return self._answer(current, step, sender, message)

    def total(self, round_: Round) -> np.ndarray:
        """Returns the sum of an attempt that aggregates, modulo 2^bits: [size] unsigned."""
        with self._lock:
            sum_ = self._open_sum()
            if self._total is None:
                self._total = sum_.server.sum()
            return self._total

    def _keep(
        self, current: Round, sender: bytes, step: str, message: secure_steps.Step, body: bytes
    ) -> None:
        """Applies a device's message to the sum, and records it.

        The same message again has no effect; another one for the same step is refused.
        """
        query = "SELECT body FROM sums WHERE assignment=? AND step=?"
        recorded = self._db.one(query, message.assignment, step)
        if recorded is not None:
            if recorded[0] != body:
                raise Refused("replay", "this seat sent a different message for this step")
            return
        sum_ = self._open_sum()
        if {"advertise": sum_.neighbours, "share": sum_.envelopes}.get(step) is not None:
            raise Refused("late", "this step closed without this device")
        with _refusing():
            _apply(sum_, sender, message)
        self._is_ahead = True
        self._note(current, step, body, message.assignment, sender)

    def _take(self, upload: Upload) -> None:
        """Adds a masked vector to the sum."""
        current = self._round
        assert current is not None
        if self._open_sum().questions is not None:
            raise self._closed(current.number, current.attempt)
        query = "SELECT device FROM sums WHERE assignment=? AND step='share'"
        row = self._db.one(query, upload.assignment)
        if row is None:
            raise Refused("bad_step", "this seat has not shared")
        included = dict(upload.included or {})
        with _refusing():
            self._report(self._open_sum(), row[0], upload.payload, included)
        self._is_ahead = True
        self._note(current, _REPORT, json.dumps(included).encode(), upload.assignment, row[0])

    def _took_part(self, device: bytes, number: int) -> bool:
        """Extends the base class: false shares that cost an attempt at this round count, too."""
        query = "SELECT 1 FROM seats JOIN sums USING (assignment) WHERE seats.device=? AND step=?"
        took_part = super()._took_part(device, number)
        return took_part or self._db.one(query, device, _FALSE) is not None

    def accept(self, number: int, device: bytes, upload: Upload) -> tuple[Participation, int]:
        participation = super().accept(number, device, upload)
        with self._lock:
            self._tick()
        return participation

    def _tick(self) -> None:
        super()._tick()
        while self._may_close():
            pass

    def _may_close(self) -> bool:
        """Closes the open step if it is time, and returns whether it did."""
        current = self._round
        if current is None or current.state not in rounds.OPEN or current.begun is None:
            return False
        secure_sum = self._open_sum()
        if secure_sum.questions is not None:
            if secure_sum.server.can_sum:
                self._finish(current, secure_sum)
            return False
        if secure_sum.neighbours is None:
            end, count = _CIRCLE, secure_sum.adverts
            is_whole = current.state == rounds.RUNNING and count == current.seats
        elif secure_sum.envelopes is None:
            end, count = _ENVELOPES, secure_sum.shares
            is_whole = count == len(secure_sum.neighbours)
        else:
            end, count = _QUESTIONS, current.accepted
            is_whole = count >= min(self.round_settings.goal, len(secure_sum.envelopes))
        age = (self._clock() - current.begun) / self.round_settings.deadline_seconds
        is_due = age >= _ENDS[end] and count >= self.round_settings.min_reports
        if not (is_whole or is_due):
            return False
        with self._transaction(is_forced=True):
            self._is_ahead = True
            order = _close(secure_sum, end)
            self._note(current, end, json.dumps([x.hex() for x in order]).encode())
        return True

    def _finish(self, current: Round, secure_sum: _Sum) -> None:
        """Adds up the sum. If that fails, abandons the attempt, and notes the device to blame."""
        state, dealers = rounds.AGGREGATING, set[bytes | None]()
        try:
            self._total = secure_sum.server.sum()
        except SecureSumError as error:
            state, dealers = rounds.ABANDONED, {error.device}
        with self._transaction(is_forced=True):
            self._put(dataclasses.replace(current, state=state), dealers)

    def _put(self, current: Round, dealers: Set[bytes | None] = frozenset()) -> None:
        """Extends the base class: keeps the seats of false dealers of an abandoned attempt."""
        seats = []
        if current.state == rounds.ABANDONED:
            dealers = dealers | self._open_sum().server.false_dealers
            query = (
                "SELECT assignment, device FROM sums WHERE number=? AND attempt=? AND step='share'"
            )
            shares = self._db.all(query, current.number, current.attempt)
            seats = [assignment for assignment, device in shares if device in dealers]
        super()._put(current)
        for assignment in seats:
            self._note(current, _FALSE, b"", assignment)

    def _answer(
        self, current: Round, step: str, sender: bytes, message: secure_steps.Step
    ) -> secure_steps.Next:
        """Returns the answer to a step: its result, or the time to wait until the step closes."""
        secure_sum = self._open_sum()
        results_of_steps = {
            "advertise": (secure_sum.neighbours, secure_steps.neighbours),
            "share": (secure_sum.envelopes, secure_steps.envelopes),
            "confirm": (secure_sum.questions, secure_steps.question),
        }
        seconds = int(self.round_settings.deadline_seconds / 50)
        wait = secure_steps.Next(retry_after_s=min(max(seconds, 1), _MAX_WAIT_SECONDS))
        if isinstance(message, secure_steps.Unmask):
            return secure_steps.Next()
        if isinstance(message, secure_steps.Confirm) and message.signatures is not None:
            confirmed = secure_sum.server.confirmations(sender)
            return secure_steps.confirmed(confirmed) if confirmed else wait
        results, to_message = results_of_steps[step]
        if results is None:
            return wait
        if (
            step == "share"
            and secure_sum.questions is not None
            and sender not in secure_sum.questions
        ):
            raise self._closed(current.number, current.attempt)  # saves the device a useless upload
        if sender not in results:
            raise Refused("late", "this step closed without this device")
        answer: secure_steps.Next = to_message(results[sender])  # type: ignore[operator]
        return answer

    def _note(
        self,
        current: Round,
        step: str,
        body: bytes,
        assignment: str | None = None,
        device: bytes = b"",
    ) -> None:
        """Records a message of a device, or, without an assignment, the end of a step."""
        self._db.put(
            "sums",
            {
                "number": current.number,
                "attempt": current.attempt,
                "assignment": assignment,
                "device": device,
                "step": step,
                "body": body,
            },
        )

    def _open_sum(self) -> _Sum:
        """Returns the sum of the newest round, and rebuilds it from disk if it is not in memory."""
        current = self._round
        assert current is not None
        if self._sum is None or self._sum_of != (current.number, current.attempt):
            self._total = None
            self._sum, self._sum_of = self._replayed(current), (current.number, current.attempt)
        return self._sum

    def _replayed(self, current: Round) -> _Sum:
        """Returns the sum of the current attempt, after all recorded steps."""
        assert self.round_settings.sums is not None
        label = secure_steps.label(self.label(current), current.plan, current.model)
        settings = dataclasses.replace(self.round_settings.sums, label=label)
        secure_sum = _Sum(Server(settings, min_devices=self.round_settings.min_reports))
        rows = self._db.all(
            "SELECT assignment, device, step, body FROM sums WHERE number=? AND attempt=? "
            "ORDER BY place",
            current.number,
            current.attempt,
        )
        query = "SELECT payload FROM uploads WHERE number=? AND attempt=? AND assignment=?"
        for assignment, device, step, body in rows:
            if assignment is None:
                _close(secure_sum, step, [bytes.fromhex(x) for x in json_text.parse(body)])
            elif step == _REPORT:
                (payload,) = self._db.one(query, current.number, current.attempt, assignment)
                self._report(secure_sum, device, payload, json_text.parse(body))
            else:
                _apply(secure_sum, device, messages.decode(secure_steps.STEPS[step], body))
        return secure_sum

    def _report(
        self, secure_sum: _Sum, device: bytes, payload: bytes, included: Mapping[str, str]
    ) -> None:
        """Adds a masked vector. Raises `SecureSumError` or `ValueError` if it does not fit."""
        assert self.round_settings.sums is not None
        masked = np.frombuffer(payload, masks.WORDS[self.round_settings.sums.bits])
        signatures = secure_steps.from_hex(included)
        secure_sum.server.report(Report(device=device, masked=masked, included=signatures))

    @contextmanager
    def _transaction(self, *, is_forced: bool = False) -> Iterator[None]:
        """Extends the base class: after a rollback on disk, the sum in memory is dropped, too."""
        with self._lock:
            is_part = self._db.in_transaction
            try:
                with super()._transaction(is_forced=is_forced):
                    yield
            except Refused:
                raise
            except BaseException:
                if self._is_ahead:
                    self._sum = None
                raise
            finally:
                self._is_ahead = self._is_ahead and is_part


def _apply(secure_sum: _Sum, sender: bytes, message: Any) -> None:
    """Applies a device's message to the sum.

    Raises:
      SecureSumError, ValueError: If it does not fit.
    """
    if isinstance(message, secure_steps.Advertise):
        secure_sum.server.advertise(secure_steps.advert(sender, message))
        secure_sum.adverts += 1
    elif isinstance(message, secure_steps.Share):
        secure_sum.server.share(secure_steps.shares(sender, message))
        secure_sum.shares += 1
    elif isinstance(message, secure_steps.Confirm):
        secure_sum.server.confirm(secure_steps.confirmations(sender, message))
    else:
        secure_sum.server.unmask(secure_steps.reveal(sender, message))


def _close(secure_sum: _Sum, end: str, order: Sequence[bytes] | None = None) -> list[bytes]:
    """Closes a step. Returns the circle of devices if the step makes one, else an empty list.

    `end` is the step. `order` is the recorded circle, if the step is replayed.
    """
    if end == _CIRCLE:
        secure_sum.neighbours = secure_sum.server.neighbours(order or None)
        return list(secure_sum.neighbours)
    if end == _ENVELOPES:
        secure_sum.envelopes = secure_sum.server.envelopes()
    else:
        secure_sum.questions = secure_sum.server.questions()
    return []


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuses a message that the secure sum rejects."""
    try:
        yield
    except (SecureSumError, ValueError) as error:
        raise Refused("bad_step", str(error)) from None
