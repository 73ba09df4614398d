"""The states of a round, as pure functions of time, seats and uploads.

    selecting    devices that check in get seats
    running      there are no more free seats; devices upload
    aggregating  its uploads are fixed: the report goal was reached, or there were enough uploads at
                 the deadline
    released     model, ledger line, row and checkpoint are on disk: the model can be fetched
    abandoned    there were too few uploads at the deadline: they are deleted, and another attempt
                 starts

Uploads are accepted while selecting, too: fast devices do not wait for slow ones. If only the top
of a round uploads (FedMed's topK), devices send their losses first. The uploading devices are
chosen when the goal is reached, or at half of the time if there are enough losses. Selection,
over-selection and goal are those of Bonawitz et al. 2019, section 2.2,
https://arxiv.org/abs/1902.01046.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tff_keyboard_fleet.wire.secure_sums.messages import Settings

SELECTING, RUNNING, AGGREGATING = "selecting", "running", "aggregating"
RELEASED, ABANDONED = "released", "abandoned"
OPEN = (SELECTING, RUNNING)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundSettings:
    """Rules of every round.

    Attributes:
      goal: Number of uploads that close a round; >= 1.
      max_seats: Number of seats: the goal with over-selection; >= `goal`.
      min_reports: Number of uploads that are enough at the deadline; in 1..`goal`.
      deadline_seconds: Time from the first seat to the deadline; > 0.
      separation: Number of rounds after which a device may take part again; 1: in the next round.
      top: Maps the number of devices with a loss to the number of devices that upload. The
        devices with the lowest loss upload. If None, all devices upload and send no loss first.
      sums: Settings of secure sums, whose steps (`secure_rounds.py`) end a round; each sum has its
        own label. If None, uploads are not masked, and their number ends a round.
    """

    goal: int
    max_seats: int
    min_reports: int
    deadline_seconds: float
    separation: int
    top: Callable[[int], int] | None = None
    sums: "Settings | None" = None

    def members(self, round_: "Round") -> int:
        """Returns the number of devices that a round counts.

        These are the devices with uploads. With `top`, the devices that only sent a loss are
        counted, too.
        """
        if self.top is None:
            return round_.accepted
        fitting = [m for m in range(round_.told + 1) if self.top(m) <= round_.accepted]
        return fitting[-1]

    def __post_init__(self) -> None:
        if not 1 <= self.min_reports <= self.goal <= self.max_seats or self.deadline_seconds <= 0:
            raise ValueError(f"There is no round of {self}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Round:
    """One attempt at a round.

    Attributes:
      number: Number of the round, >= 1.
      attempt: Number of the attempt, >= 1.
      state: `SELECTING`, `RUNNING`, `AGGREGATING`, `RELEASED` or `ABANDONED`.
      model: SHA-256 of the weights from which its devices start.
      plan: SHA-256 of the plan that they follow.
      begun: Time of the first seat, in seconds since 1970; None before it.
      seats: Number of assigned seats.
      told: Number of losses on disk, if devices send them first.
      wanted: Number of devices chosen to upload; 0 if they are not chosen yet.
      accepted: Number of uploads on disk.
    """

    number: int
    attempt: int = 1
    state: str = SELECTING
    model: str
    plan: str
    begun: float | None = None
    seats: int = 0
    told: int = 0
    wanted: int = 0
    accepted: int = 0


def at(round_: Round, round_settings: RoundSettings, now: float) -> Round:
    """Returns the round at time `now`."""
    if round_.state not in OPEN or round_.begun is None:
        return round_
    if now < round_.begun:  # the clock was set back
        return dataclasses.replace(round_, begun=now)
    age = now - round_.begun
    if age >= round_settings.deadline_seconds:
        is_enough = (
            round_settings.sums is None
            and round_settings.members(round_) >= round_settings.min_reports
        )
        return dataclasses.replace(round_, state=AGGREGATING if is_enough else ABANDONED)
    # A seat that is given later would have too little time. In a secure sum a device trains before
    # its keys are due, at 1/2. Until there are `min_reports` seats, the round waits.
    if (
        age >= round_settings.deadline_seconds / (4 if round_settings.sums else 2)
        and round_.seats >= round_settings.min_reports
    ):
        round_ = dataclasses.replace(round_, state=RUNNING)
    if age >= round_settings.deadline_seconds / 2 and round_.told >= round_settings.min_reports:
        round_ = _with_needed_uploads(round_, round_settings)
    return round_


def with_seat(round_: Round, round_settings: RoundSettings, now: float) -> Round:
    """Returns a round that is selecting with one more seat."""
    assert round_.state == SELECTING
    seats = round_.seats + 1
    return dataclasses.replace(
        round_,
        seats=seats,
        begun=now if round_.begun is None else round_.begun,
        state=RUNNING if seats >= round_settings.max_seats else SELECTING,
    )


def with_loss(round_: Round, round_settings: RoundSettings) -> Round:
    """Returns an open round, whose uploading devices are not chosen yet, with one more loss."""
    assert round_.state in OPEN
    round_ = dataclasses.replace(round_, told=round_.told + 1)
    return (
        _with_needed_uploads(round_, round_settings)
        if round_.told >= round_settings.goal
        else round_
    )


def _with_needed_uploads(round_: Round, round_settings: RoundSettings) -> Round:
    """Returns the round with the number of uploads that it needs, once the losses decide it."""
    if round_settings.top is None or round_.wanted:
        return round_
    return dataclasses.replace(round_, wanted=round_settings.top(round_.told))


def with_upload(round_: Round, round_settings: RoundSettings) -> Round:
    """Returns an open round with one more upload."""
    assert round_.state in OPEN
    accepted = round_.accepted + 1
    is_full = round_settings.sums is None and accepted >= (round_.wanted or round_settings.goal)
    return dataclasses.replace(
        round_, accepted=accepted, state=AGGREGATING if is_full else round_.state
    )


def begun_again(round_: Round, round_settings: RoundSettings, now: float) -> Round:
    """Returns an open round after a restart of the server. Its clock starts again.

    The duration of the interruption is not known. The clock of a secure sum does not start again,
    because the sum would then wait for devices that have given up.
    """
    if round_.state not in OPEN or round_.begun is None or round_settings.sums:
        return round_
    return dataclasses.replace(round_, begun=now)


def next_attempt(round_: Round) -> Round:
    """Returns the round that replaces an abandoned one."""
    return Round(
        number=round_.number, attempt=round_.attempt + 1, model=round_.model, plan=round_.plan
    )


def seconds_left(round_: Round, round_settings: RoundSettings, now: float) -> int:
    """Returns whole seconds to the deadline; the full time before the first seat."""
    age = 0.0 if round_.begun is None else now - round_.begun
    return max(math.floor(round_settings.deadline_seconds - age), 0)
