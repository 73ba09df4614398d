"""Learning rates that change with the round: `[server.schedule]`, `[client.schedule]`, ...

The rate of round t >= 1 is the table's `learning_rate` times a factor
(`federated/learning/schedules.py`), a pure function of t. A cosine that names no rounds of its own
ends with those that `train.rounds` has when a run begins (`config/resolved_schedules.py`). The run
records them: `train.rounds` may grow while it goes on, and the rates of a round stay.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.config.reading.checks import FromZero, Positive, Share
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Schedule(Table, path="schedule"):
    """What all schedules have.

    Attributes:
      warmup_rounds: Rounds over which the rate rises linearly to its full value, reached in round
        `warmup_rounds`; 0 starts with it.
    """

    warmup_rounds: FromZero = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant(_Schedule):
    """The full rate in all rounds after the warm-up."""

    name: Literal["constant"] = "constant"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConstantThenDecay(_Schedule):
    """The full rate for a while, then half of it every `half_life_rounds`.

    Attributes:
      constant_rounds: The last round with the full rate, >= `warmup_rounds`.
      half_life_rounds: Rounds after which the rate has halved, > 0.
      lowest: The factor never falls below this, in [0, 1].
    """

    name: Literal["constant_then_decay"] = "constant_then_decay"
    constant_rounds: int
    half_life_rounds: Positive
    lowest: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.constant_rounds >= self.warmup_rounds,
            "constant_rounds",
            f"must be >= `schedule.warmup_rounds` = {self.warmup_rounds}",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cosine(_Schedule):
    """Half a cosine from the full rate at the end of the warm-up down to `lowest` of it.

    Attributes:
      rounds: The round that reaches the lowest rate, > `warmup_rounds`; later rounds keep it. 0
        means the last one of `train.rounds`.
      lowest: Its factor, in [0, 1].
    """

    name: Literal["cosine"] = "cosine"
    rounds: int = 0
    lowest: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.rounds == 0 or self.rounds > self.warmup_rounds,
            "rounds",
            f"must be 0 or > `schedule.warmup_rounds` = {self.warmup_rounds}",
        )


Schedule: TypeAlias = Constant | ConstantThenDecay | Cosine
