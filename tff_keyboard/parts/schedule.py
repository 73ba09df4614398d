"""Learning rates that change with the round: `[server.schedule]`, `[client.schedule]`, ...

The rate of round t >= 1 is the table's `learning_rate` times a factor that depends only on t
(`algorithms/schedules.py`). A cosine without rounds of its own ends at the `train.rounds` of the
run's start (`config_file.as_run`). The run records this number, so the rates of rounds do
not change if `train.rounds` is increased later.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import FromZero, Share


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Schedule(Table, path="schedule"):
    """The keys of all schedules.

    Attributes:
      warmup_rounds: Number of rounds over which the learning rate rises linearly. Round
        `warmup_rounds` is the first with the full rate. 0 means no warm-up.
    """

    warmup_rounds: FromZero = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Constant(_Schedule):
    """Keeps the full learning rate in all rounds after the warm-up."""

    type: Literal["constant"] = "constant"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cosine(_Schedule):
    """Decreases the learning rate along half a cosine, from the end of the warm-up on.

    It goes from the full rate to `lowest` times the full rate.

    Attributes:
      rounds: Round at which the lowest rate is reached; later rounds keep it. Must be >
        `warmup_rounds`. 0 means the last round of `train.rounds`.
      lowest: Lowest rate, as a factor of the full rate.
    """

    type: Literal["cosine"] = "cosine"
    rounds: int = 0
    lowest: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.rounds == 0 or self.rounds > self.warmup_rounds,
            "rounds",
            f"must be 0 or > `schedule.warmup_rounds` = {self.warmup_rounds}",
        )


Schedule: TypeAlias = Constant | Cosine
