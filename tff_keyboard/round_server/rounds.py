"""The life of a round, as pure functions: what time, seats and uploads make of it.

    selecting    devices that check in get seats
    running      no seat is free any more; uploads come in
    aggregating  its uploads are fixed: the report goal is reached, or the deadline with enough
    released     its model is on disk, with ledger line, row and checkpoint: it may be fetched
    abandoned    too few uploads at the deadline: selected anew, its uploads forgotten

Uploads are taken while selecting, too: fast devices do not wait for slow ones. Where only the top
of a round uploads (FedMed's topK), devices tell their losses first; who uploads is decided at the
goal, or at half of the time with enough losses. Selection,
over-selection and goal are those of Bonawitz et al. 2019, section 2.2,
https://arxiv.org/abs/1902.01046.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tff_keyboard.wire.secure_sums.messages import Settings

SELECTING, RUNNING, AGGREGATING = "selecting", "running", "aggregating"
RELEASED, ABANDONED = "released", "abandoned"
OPEN = (SELECTING, RUNNING)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """What holds for every round.

    Attributes:
      goal: Uploads that close a round; >= 1.
      most: Seats: the goal with over-selection; >= `goal`.
      least: Uploads that are enough at the deadline; in 1..`goal`.
      deadline_seconds: Time from the first seat to the deadline; > 0.
      separation: A device takes part again so many rounds later; 1: in the next.
      top: Devices with a loss -> how many of them, those of lowest loss, upload; None: all upload,
        and tell no loss before.
      sums: Uploads are masked, and the steps of their sum (`secure_rounds.py`) end a round; each
        sum has a label of its own. None: they are in clear, and their number ends it.
    """

    goal: int
    most: int
    least: int
    deadline_seconds: float
    separation: int
    top: Callable[[int], int] | None = None
    sums: "Settings | None" = None

    def members(self, round_: "Round") -> int:
        """Devices that a round counts: those with uploads, and with `top` the others of whom these
        uploads are the top."""
        if self.top is None:
            return round_.accepted
        fitting = [m for m in range(round_.told + 1) if self.top(m) <= round_.accepted]
        return fitting[-1]

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.goal <= self.most or self.deadline_seconds <= 0:
            raise ValueError(f"There is no round of {self}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Round:
    """One attempt at a round.

    Attributes:
      number: Place in the run, >= 1.
      attempt: One more than how often the round was abandoned.
      model: SHA-256 of the weights that its devices start from.
      plan: SHA-256 of the plan they follow.
      begun: When the first seat was given, seconds since 1970; None: not yet.
      seats: Seats given.
      told: Losses on disk, where they are asked for first.
      wanted: Uploads that are asked for then; 0: that is not decided yet.
      accepted: Uploads on disk.
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


def at(round_: Round, terms: Terms, now: float) -> Round:
    """The round as the clock has it."""
    if round_.state not in OPEN or round_.begun is None:
        return round_
    if now < round_.begun:  # the clock was set back
        return dataclasses.replace(round_, begun=now)
    age = now - round_.begun
    if age >= terms.deadline_seconds:
        is_enough = terms.sums is None and terms.members(round_) >= terms.least
        return dataclasses.replace(round_, state=AGGREGATING if is_enough else ABANDONED)
    # Later seats have too little time: of a secure sum to train before its keys are due, at 1/2.
    # Up to `least` seats it waits for each of them.
    if age >= terms.deadline_seconds / (4 if terms.sums else 2) and round_.seats >= terms.least:
        round_ = dataclasses.replace(round_, state=RUNNING)
    if age >= terms.deadline_seconds / 2 and round_.told >= terms.least:
        round_ = _decided(round_, terms)
    return round_


def with_seat(round_: Round, terms: Terms, now: float) -> Round:
    """One more seat, of a round that is selecting."""
    assert round_.state == SELECTING
    seats = round_.seats + 1
    return dataclasses.replace(
        round_,
        seats=seats,
        begun=now if round_.begun is None else round_.begun,
        state=RUNNING if seats >= terms.most else SELECTING,
    )


def with_loss(round_: Round, terms: Terms) -> Round:
    """One more loss, of an open round that has not decided who uploads."""
    assert round_.state in OPEN
    round_ = dataclasses.replace(round_, told=round_.told + 1)
    return _decided(round_, terms) if round_.told >= terms.goal else round_


def _decided(round_: Round, terms: Terms) -> Round:
    if terms.top is None or round_.wanted:
        return round_
    return dataclasses.replace(round_, wanted=terms.top(round_.told))


def with_upload(round_: Round, terms: Terms) -> Round:
    """One more upload, of an open round."""
    assert round_.state in OPEN
    accepted = round_.accepted + 1
    is_full = terms.sums is None and accepted >= (round_.wanted or terms.goal)
    return dataclasses.replace(
        round_, accepted=accepted, state=AGGREGATING if is_full else round_.state
    )


def begun_again(round_: Round, terms: Terms, now: float) -> Round:
    """An open round after the server was away: nobody knows how long, so its clock starts anew.

    Not that of a secure sum, which would then wait for devices that have given up.
    """
    if round_.state not in OPEN or round_.begun is None or terms.sums:
        return round_
    return dataclasses.replace(round_, begun=now)


def next_attempt(round_: Round) -> Round:
    """The round that takes the place of an abandoned one."""
    return Round(
        number=round_.number, attempt=round_.attempt + 1, model=round_.model, plan=round_.plan
    )


def seconds_left(round_: Round, terms: Terms, now: float) -> int:
    """Whole seconds to the deadline; all of them before the first seat."""
    age = 0.0 if round_.begun is None else now - round_.begun
    return max(math.floor(terms.deadline_seconds - age), 0)
