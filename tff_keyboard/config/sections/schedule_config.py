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
    """What all schedules have."""

    # rounds over which the rate rises linearly to its full value, reached in round `warmup_rounds`;
    # 0 starts with it
    warmup_rounds: FromZero = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant(_Schedule):
    """The full rate in all rounds after the warm-up."""

    name: Literal["constant"] = "constant"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConstantThenDecay(_Schedule):
    """The full rate for a while, then half of it every `half_life_rounds`."""

    name: Literal["constant_then_decay"] = "constant_then_decay"
    constant_rounds: int  # the last round with the full rate, >= `warmup_rounds`
    half_life_rounds: Positive  # rounds after which the rate has halved, > 0
    lowest: Share = 0.0  # the factor never falls below this, in [0, 1]

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = f"must be >= `schedule.warmup_rounds` = {self.warmup_rounds}"
        self.require(self.constant_rounds >= self.warmup_rounds, "constant_rounds", rule)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cosine(_Schedule):
    """Half a cosine from the full rate at the end of the warm-up down to `lowest` of it."""

    name: Literal["cosine"] = "cosine"
    # the round that reaches the lowest rate, > `warmup_rounds`; later rounds keep it. 0 means the
    # last one of `train.rounds`
    rounds: int = 0
    lowest: Share = 0.0  # its factor, in [0, 1]

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = f"must be 0 or > `schedule.warmup_rounds` = {self.warmup_rounds}"
        self.require(self.rounds == 0 or self.rounds > self.warmup_rounds, "rounds", rule)


Schedule: TypeAlias = Constant | ConstantThenDecay | Cosine
