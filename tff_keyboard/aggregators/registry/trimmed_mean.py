"""The aggregator "trimmed_mean"."""

import dataclasses
from typing import Annotated, ClassVar, Literal

from tff_keyboard.aggregators.registry._order_statistic import OrderStatistic
from tff_keyboard.storage.checks import Range


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrimmedMeanConfig(OrderStatistic):
    """The mean of each coordinate without the lowest and highest values.

    Attributes:
      trim_fraction: Share of the values that is cut at each end: the lowest and the highest values
        of the cohort. Must be below 0.5; 0 is the unweighted mean. It is not a share of attackers:
        a random cohort often has more attackers than their average (docs/attacks.md).
    """

    factory: ClassVar[str] = "tff_keyboard.aggregators.robust_mean:TrimmedMeanFactory"
    attacker_share: ClassVar[str] = "trim_fraction"

    type: Literal["trimmed_mean"] = "trimmed_mean"
    trim_fraction: Annotated[float, Range("in [0, 0.5)", lambda share: 0 <= share < 0.5)] = 0.1
