from tff_keyboard.evaluation.metrics.metric_table import (
    FEDERATED_METRICS,
    FEDERATED_SUMS,
    HOST_SUMS,
    METRICS,
    Metric,
)
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import (
    federated_metrics,
    metric_difference,
    metric_interval,
    metric_value,
)

__all__ = [
    "FEDERATED_METRICS",
    "FEDERATED_SUMS",
    "HOST_SUMS",
    "METRICS",
    "Interval",
    "Metric",
    "federated_metrics",
    "metric_difference",
    "metric_interval",
    "metric_value",
]
