"""The aggregator "fedatt"."""

import dataclasses
from typing import ClassVar, Literal

from tff_keyboard.aggregators.registry._layered import (
    WEIGHTS_ARE_NOT_BOUNDED,
    LayeredAggregator,
)
from tff_keyboard.storage.checks import Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAttConfig(LayeredAggregator):
    """FedAtt: weights each layer of a client by attention (Ji et al. 2019).

    Attributes:
      norm: Norm that measures how far a layer moved: the L1, L2 or maximum norm ("1", "2", "inf"),
        or "spectral", the largest singular value of a matrix.
      temperature: Divisor of the distances: attention is softmax(distance / temperature). With
        large values, FedAtt approaches the unweighted mean. 1 is as in the paper.
    """

    factory: ClassVar[str] = "tff_keyboard.aggregators.fedatt.aggregator:FedAttFactory"
    averages: ClassVar[bool] = True
    privacy_problem: ClassVar[str] = WEIGHTS_ARE_NOT_BOUNDED
    secure_sum_problem: ClassVar[str] = (
        "its attention needs the distance of each client, and the largest distance"
    )

    type: Literal["fedatt"] = "fedatt"
    norm: Literal["1", "2", "inf", "spectral"] = "2"
    temperature: Positive = 1.0
