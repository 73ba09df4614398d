"""Median and trimmed mean of coordinates: robust to a minority of arbitrary clients.

    median:        result_i = median_k delta_k[i]                    (mean of the middle two)
    trimmed mean:  result_i = mean of delta_k[i] without the g lowest and the g highest,
                   g = floor(trim_fraction * M)

Clients count equally; weight only says whether.

Source: Yin et al. 2018, Definitions 1 and 2, https://arxiv.org/abs/1803.01498.
"""

import collections

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config.sections.rule_config import TrimmedMean
from tff_keyboard.federated.aggregation import client_stack
from tff_keyboard.federated.aggregation.layers import require_float_tensors
from tff_keyboard.federated.aggregation.processes import AggregationProcess


class _RobustMeanFactory(tff.aggregators.WeightedAggregationFactory):
    """Mean of the middle of each coordinate over clients of weight > 0."""

    def _cut(self, clients: tf.Tensor) -> tf.Tensor:
        """How many of so many clients are left out on each side, int32."""
        raise NotImplementedError

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class; `weight_type` is a number."""
        require_float_tensors(value_type, "A robust mean")

        def middle(stacked):
            clients = client_stack.num_clients(stacked)
            cut = self._cut(clients)
            measurements = collections.OrderedDict(clients=clients, trimmed_clients=2 * cut)
            return client_stack.middle_mean(stacked, cut), measurements

        return client_stack.build_stack_process(value_type, weight_type, middle)


class MedianFactory(_RobustMeanFactory):
    """Median of each coordinate over clients of weight > 0; takes no arguments.

    A round where nobody counts gives zeros. No state. Measurements: `clients` and
    `trimmed_clients` (int32; those left out of each coordinate).
    """

    def _cut(self, clients: tf.Tensor) -> tf.Tensor:
        return tf.maximum((clients - 1) // 2, 0)


class TrimmedMeanFactory(_RobustMeanFactory):
    """Trimmed mean of each coordinate over clients of weight > 0.

    A round where nobody counts gives zeros. No state. Measurements: `clients` and
    `trimmed_clients` (int32; those left out of each coordinate).

    Args:
      rule: Config; None: that of `trim_fraction`.
      trim_fraction: Share left out on each side, in [0, 0.5); 0 is the unweighted mean. None: as
        `rule` has it, or 0.1.
    """

    def __init__(self, rule: TrimmedMean | None = None, *, trim_fraction: float | None = None):
        self._rule = (rule or TrimmedMean()).changed(trim_fraction=trim_fraction)

    def _cut(self, clients: tf.Tensor) -> tf.Tensor:
        exact = tf.cast(clients, tf.float64) * self._rule.trim_fraction
        return tf.cast(tf.floor(exact + 1e-9), tf.int32)  # 0.3 * 10 is 2.999...
