"""`[averaging]`: an average of the models of many rounds, chosen by `kind`.

With one, the run's model and its validation are those of the average; the last model is evaluated
beside it (`evaluation/last/...`) and saved in `model_last/`.
"""

import dataclasses
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.checks import require, require_at_least
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoAverage(Table):
    """The model of a round is the last one."""

    PATH: ClassVar[str] = "averaging"

    kind: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExponentialAverage(Table):
    """Older models count less and less.

    Attributes:
      decay: What a model's weight is multiplied by each round, in (0, 1): the average is over
        about 1 / (1 - decay) rounds.
      first_round: The first that counts, >= 1.
    """

    PATH: ClassVar[str] = "averaging"

    kind: Literal["exponential"] = "exponential"
    decay: float = 0.95
    first_round: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.decay < 1, "averaging.decay", "must be in (0, 1)", self.decay)
        require_at_least("averaging.first_round", self.first_round, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailAverage(Table):
    """All models from a round on count alike.

    Attributes:
      first_round: The first that counts, >= 1; after two thirds of the rounds is usual.
    """

    PATH: ClassVar[str] = "averaging"

    kind: Literal["tail"] = "tail"
    first_round: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("averaging.first_round", self.first_round, 1)


Averaging: TypeAlias = NoAverage | ExponentialAverage | TailAverage
