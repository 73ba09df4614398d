"""The aggregator "median"."""

import dataclasses
from typing import ClassVar, Literal

from tff_keyboard.aggregators.registry._order_statistic import OrderStatistic


@dataclasses.dataclass(frozen=True, kw_only=True)
class MedianConfig(OrderStatistic):
    """The median of each coordinate."""

    factory: ClassVar[str] = "tff_keyboard.aggregators.robust_mean:MedianFactory"

    type: Literal["median"] = "median"
