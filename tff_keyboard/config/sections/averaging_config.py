"""`[averaging]`: an average of the models of many rounds, chosen by `kind`.

With one, the run's model and its validation are those of the average; the last model is evaluated
beside it (`evaluation/last/...`) and saved in `model_last/`.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.config.reading.checks import FromOne, OpenShare
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoAverage(Table, path="averaging"):
    """The model of a round is the last one."""

    kind: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExponentialAverage(Table, path="averaging"):
    """Older models count less and less.

    Attributes:
      decay: What a model's weight is multiplied by each round, in (0, 1): the average is over
        about 1 / (1 - decay) rounds.
      first_round: The first that counts, >= 1.
    """

    kind: Literal["exponential"] = "exponential"
    decay: OpenShare = 0.95
    first_round: FromOne = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailAverage(Table, path="averaging"):
    """All models from a round on count alike.

    Attributes:
      first_round: The first that counts, >= 1; after two thirds of the rounds is usual.
    """

    kind: Literal["tail"] = "tail"
    first_round: FromOne


Averaging: TypeAlias = NoAverage | ExponentialAverage | TailAverage
