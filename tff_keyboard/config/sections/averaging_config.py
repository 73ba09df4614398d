"""`[averaging]`: an average of the models of many rounds, chosen by `type`.

With an average, the run saves and validates the averaged model. The last model is also evaluated
(`evaluation/last/...`), and saved in `model_last/`.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage.checks import FromOne, OpenShare


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoAverage(Table, path="averaging"):
    """The model of a round is the last one, without averaging."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExponentialAverage(Table, path="averaging"):
    """An average in which the weight of older models decays exponentially.

    Attributes:
      decay: Factor on a model's weight in each later round, in (0, 1): the average is over about 1
        / (1 - decay) rounds.
      first_round: First round in the average, >= 1.
    """

    type: Literal["exponential"] = "exponential"
    decay: OpenShare = 0.95
    first_round: FromOne = 1


Averaging: TypeAlias = NoAverage | ExponentialAverage
