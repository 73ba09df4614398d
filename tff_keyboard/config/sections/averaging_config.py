"""`[averaging]`: an average of the models of many rounds, chosen by `type`.

With an average, the run saves and validates the averaged model. The last model is also evaluated
(`evaluation/last/...`), and saved in `model_last/`.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import FromOne, OpenShare


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoAverage(Table, path="averaging"):
    """Does not average models."""

    type: Literal["none"] = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExponentialAverage(Table, path="averaging"):
    """Averages the models of the rounds, with weights that decay exponentially with age.

    Attributes:
      decay: Factor by which the weight of a model shrinks in each later round. The average covers
        about 1 / (1 - decay) rounds, 20 with the default.
      first_round: First round whose model is part of the average.
    """

    type: Literal["exponential"] = "exponential"
    decay: OpenShare = 0.95
    first_round: FromOne = 1


Averaging: TypeAlias = NoAverage | ExponentialAverage
