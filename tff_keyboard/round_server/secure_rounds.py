"""Rounds whose uploads are masked: the steps of each secure sum, on disk before they are answered.

    advertise  closes when all seats have, or at 1/2 of the time; seats are given until 1/4
    share      when all of these have, or at 5/8
    report     when the report goal is reached or all of these have, or at 7/8: masked uploads
    unmask     when the masks that are left can be taken off: the round aggregates

A step that closes by the clock needs the least number of devices. At the deadline, or where the
shares do not give the masks, the round is abandoned and selected anew, with new keys, and without
devices whose shares were false, or left out by so many that the others are too few.

The `wire.secure_sums.server.Server` of the newest round is in memory alone; after a kill the
messages on disk, replayed in order, make the same. They are forgotten with the round's uploads.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from tff_keyboard.round_server import rounds
from tff_keyboard.round_server.round_store import RoundStore
from tff_keyboard.round_server.rounds import Round, Terms
from tff_keyboard.round_server.tables import Upload
from tff_keyboard.storage.errors import RunDirectoryError, SecureSumError
from tff_keyboard.wire import messages, secure_steps
from tff_keyboard.wire.messages import Refused
from tff_keyboard.wire.secure_sums import masks
from tff_keyboard.wire.secure_sums.messages import Advert, Envelope, Unmask
from tff_keyboard.wire.secure_sums.server import Server
from tff_keyboard.wire.tokens import Participation

# Ends of steps in the table `sums`, beside the steps of devices.
_CIRCLE, _ENVELOPES, _QUESTIONS = "circle", "envelopes", "questions"
_FALSE = "false"  # there, too: this seat dealt shares of something else than its secret
_ENDS = {_CIRCLE: 1 / 2, _ENVELOPES: 5 / 8, _QUESTIONS: 7 / 8}  # shares of the time
_MOST_WAIT_SECONDS = 5


@dataclasses.dataclass
class _Sum:
    """A sum so far: its server, and what the steps that are closed gave each device."""

    server: Server
    adverts: int = 0
    shares: int = 0
    neighbours: Mapping[bytes, Sequence[Advert]] | None = None
    envelopes: Mapping[bytes, Sequence[Envelope]] | None = None
    questions: Mapping[bytes, Unmask] | None = None


class SecureRoundStore(RoundStore):
    """See the module, and the class before."""

    def __init__(self, directory: pathlib.Path, terms: Terms, clock: Callable[[], float]):
        self._sum: _Sum | None = None
        self._sum_of: tuple[int, int] | None = None
        self._is_ahead = False  # whether the sum in memory has what is not on disk for certain
        self._total: np.ndarray | None = None
        super().__init__(directory, terms, clock)
        if self._round is not None and self._round.state in (*rounds.OPEN, rounds.AGGREGATING):
            self._check_replay(self._round)

    def _check_replay(self, now: Round) -> None:
        try:
            self._open_sum()
        except SecureSumError as error:
            raise RunDirectoryError(
                f"{self._db.path}: the secure sum of round {now.number} was begun with other terms "
                f"({error}). Set `devices.least_share` as it was until the round is released."
            ) from None

    def label(self, round_: Round) -> str:
        """Names the sum of an attempt at a round; no two sums share one."""
        return f"{self.run_id}/{round_.number}/{round_.attempt}"

    def step(
        self, number: int, device: bytes, sender: bytes, step: str, message: secure_steps.Step
    ) -> secure_steps.Next:
        """Takes a device's message of a step, once; the same again has the same answer.

        Args:
          device: Its pseudonym.
          sender: Its Ed25519 key.

        Raises:
          Refused: "unknown_round", "late" or "surplus": it has no seat here any more; "replay": it
            sent another message of this step; "bad_step": the step is another, or the message does
            not fit the sum.
        """
        body = messages.encode(message)
        with self._transaction(is_forced=True):
            self._tick()
            attempt, place = self._seat("attempt, place", number, device, message.assignment)
            now = self._round
            assert now is not None
            if (now.number, now.attempt) != (number, attempt) or now.state not in rounds.OPEN:
                if place is not None:
                    return secure_steps.Next()  # the sum is made, or lost: no more is to do
                raise self._closed(number, attempt)
            if not (isinstance(message, secure_steps.Unmask) and message.shares is None):
                self._keep(now, sender, step, message, body)
                self._tick()
            return self._answer(self._open_sum(), step, sender, message)

    def total(self, round_: Round) -> np.ndarray:
        """[size] unsigned: the sum of an attempt that aggregates, modulo 2^bits."""
        with self._lock:
            found = self._open_sum()
            if self._total is None:
                self._total = found.server.sum()
            return self._total

    def _keep(
        self, now: Round, sender: bytes, step: str, message: secure_steps.Step, body: bytes
    ) -> None:
        query = "SELECT body FROM sums WHERE assignment=? AND step=?"
        known = self._db.one(query, message.assignment, step)
        if known is not None:
            if known[0] != body:
                raise Refused("replay", "this seat sent another message of this step")
            return
        found = self._open_sum()
        if {"advertise": found.neighbours, "share": found.envelopes}.get(step) is not None:
            raise Refused("late", "this step was closed without this device")
        with _refusing():
            _apply(found, sender, message)
        self._is_ahead = True
        self._note(now, step, body, message.assignment, sender)

    def _take(self, upload: Upload) -> None:
        """Adds a masked vector to the sum."""
        now = self._round
        assert now is not None
        if self._open_sum().questions is not None:
            raise self._closed(now.number, now.attempt)
        query = "SELECT device FROM sums WHERE assignment=? AND step='share'"
        found = self._db.one(query, upload.assignment)
        if found is None:
            raise Refused("bad_step", "this seat has not shared")
        with _refusing():
            self._open_sum().server.report(found[0], self._vector(upload))
        self._is_ahead = True

    def _took_part(self, device: bytes, number: int) -> bool:
        """As the class before; so did a device whose false shares cost an attempt at this round."""
        query = "SELECT 1 FROM seats JOIN sums USING (assignment) WHERE seats.device=? AND step=?"
        took_part = super()._took_part(device, number)
        return took_part or self._db.one(query, device, _FALSE) is not None

    def accept(self, number: int, device: bytes, upload: Upload) -> tuple[Participation, int]:
        found = super().accept(number, device, upload)
        with self._lock:
            self._tick()
        return found

    def _tick(self) -> None:
        super()._tick()
        while self._may_close():
            pass

    def _may_close(self) -> bool:
        """Closes the step that is open, if it is time; whether it did."""
        now = self._round
        if now is None or now.state not in rounds.OPEN or now.begun is None:
            return False
        found = self._open_sum()
        if found.questions is not None:
            if found.server.can_sum:
                self._finish(now, found)
            return False
        if found.neighbours is None:
            end, count = _CIRCLE, found.adverts
            is_whole = now.state == rounds.RUNNING and count == now.seats
        elif found.envelopes is None:
            end, count = _ENVELOPES, found.shares
            is_whole = count == len(found.neighbours)
        else:
            end, count = _QUESTIONS, now.accepted
            is_whole = count >= min(self.terms.goal, len(found.envelopes))
        age = (self._clock() - now.begun) / self.terms.deadline_seconds
        is_due = age >= _ENDS[end] and count >= self.terms.least
        if not (is_whole or is_due):
            return False
        with self._transaction(is_forced=True):
            self._is_ahead = True
            order = _close(found, end)
            self._note(now, end, json.dumps([x.hex() for x in order]).encode())
        return True

    def _finish(self, now: Round, found: _Sum) -> None:
        state, dealers = rounds.AGGREGATING, set[bytes | None]()
        try:
            self._total = found.server.sum()
        except SecureSumError as error:
            state, dealers = rounds.ABANDONED, {error.device}
        with self._transaction(is_forced=True):
            self._put(dataclasses.replace(now, state=state), dealers)

    def _put(self, now: Round, dealers: Set[bytes | None] = frozenset()) -> None:
        """As the class before; of an abandoned attempt, the seats of false dealers are kept."""
        seats = []
        if now.state == rounds.ABANDONED:
            dealers = dealers | self._open_sum().server.false_dealers
            query = (
                "SELECT assignment, device FROM sums WHERE number=? AND attempt=? AND step='share'"
            )
            found = self._db.all(query, now.number, now.attempt)
            seats = [assignment for assignment, device in found if device in dealers]
        super()._put(now)
        for assignment in seats:
            self._note(now, _FALSE, b"", assignment)

    def _answer(
        self, found: _Sum, step: str, sender: bytes, message: secure_steps.Step
    ) -> secure_steps.Next:
        given = {
            "advertise": (found.neighbours, secure_steps.neighbours),
            "share": (found.envelopes, secure_steps.envelopes),
            "unmask": (found.questions, secure_steps.question),
        }
        if isinstance(message, secure_steps.Unmask) and message.shares is not None:
            return secure_steps.Next()
        closed, written = given[step]
        if closed is None:
            part = int(self.terms.deadline_seconds / 50)
            return secure_steps.Next(retry_after_s=min(max(part, 1), _MOST_WAIT_SECONDS))
        if sender not in closed:
            raise Refused("late", "this step was closed without this device")
        answer: secure_steps.Next = written(closed[sender])  # type: ignore[operator]
        return answer

    def _note(
        self, now: Round, step: str, body: bytes, assignment: str | None = None, device: bytes = b""
    ) -> None:
        self._db.put(
            "sums",
            {
                "number": now.number,
                "attempt": now.attempt,
                "assignment": assignment,
                "device": device,
                "step": step,
                "body": body,
            },
        )

    def _open_sum(self) -> _Sum:
        """The sum of the newest round; made of what is on disk where it is not in memory."""
        now = self._round
        assert now is not None
        if self._sum is None or self._sum_of != (now.number, now.attempt):
            self._total = None
            self._sum, self._sum_of = self._replayed(now), (now.number, now.attempt)
        return self._sum

    def _replayed(self, now: Round) -> _Sum:
        assert self.terms.sums is not None
        settings = dataclasses.replace(self.terms.sums, label=self.label(now).encode())
        found = _Sum(Server(settings, least=self.terms.least))
        rows = self._db.all(
            "SELECT assignment, device, step, body FROM sums WHERE number=? AND attempt=? "
            "ORDER BY place",
            now.number,
            now.attempt,
        )
        devices = {assignment: device for assignment, device, _, _ in rows if assignment}
        for assignment, device, step, body in rows:
            if step == _QUESTIONS:
                self._report_all(found, now, devices)
            if assignment is None:
                _close(found, step, [bytes.fromhex(x) for x in json.loads(body)])
            else:
                _apply(found, device, messages.decode(secure_steps.STEPS[step], body))
        if found.questions is None:
            self._report_all(found, now, devices)
        return found

    def _report_all(self, found: _Sum, now: Round, devices: Mapping[str, bytes]) -> None:
        for upload in self.uploads(now.number, now.attempt):
            found.server.report(devices[upload.assignment], self._vector(upload))

    def _vector(self, upload: Upload) -> np.ndarray:
        assert self.terms.sums is not None
        return np.frombuffer(upload.payload, masks.WORDS[self.terms.sums.bits])

    @contextmanager
    def _transaction(self, *, is_forced: bool = False) -> Iterator[None]:
        """As the class before; what was rolled back on disk is forgotten in memory, too."""
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


def _apply(found: _Sum, sender: bytes, message: Any) -> None:
    """A device's message, to the sum.

    Raises:
      SecureSumError, ValueError: It does not fit.
    """
    if isinstance(message, secure_steps.Advertise):
        found.server.advertise(secure_steps.advert(sender, message))
        found.adverts += 1
    elif isinstance(message, secure_steps.Share):
        found.server.share(secure_steps.shares(sender, message))
        found.shares += 1
    else:
        found.server.unmask(secure_steps.reveal(sender, message))


def _close(found: _Sum, end: str, order: Sequence[bytes] | None = None) -> list[bytes]:
    """Closes a step; the circle of devices, if that is what it makes."""
    if end == _CIRCLE:
        found.neighbours = found.server.neighbours(order or None)
        return list(found.neighbours)
    if end == _ENVELOPES:
        found.envelopes = found.server.envelopes()
    else:
        found.questions = found.server.questions()
    return []


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (SecureSumError, ValueError) as error:
        raise Refused("bad_step", str(error)) from None
