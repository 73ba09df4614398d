"""What the order statistics have in common."""

import dataclasses
from typing import ClassVar

from tff_keyboard.parts.aggregator import Aggregator


@dataclasses.dataclass(frozen=True, kw_only=True)
class OrderStatistic(Aggregator):
    """An aggregator that sees all updates of a cohort, and ignores the extreme ones."""

    privacy_problem: ClassVar[str] = "order statistics have no clipped sensitivity. Use 'mean'."
    secure_sum_problem: ClassVar[str] = "order statistics need the updates of all clients"
    is_robust: ClassVar[bool] = True
