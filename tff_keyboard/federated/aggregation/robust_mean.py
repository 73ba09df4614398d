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

from tff_keyboard.config.sections.rule_config import Median, TrimmedMean
from tff_keyboard.federated.aggregation.client_stack import (
    build_stack_process,
    middle_mean,
    num_clients,
)
from tff_keyboard.federated.aggregation.layers import require_float_tensors


class RobustMeanFactory(tff.aggregators.WeightedAggregationFactory):
    """Median or trimmed mean of each coordinate over clients of weight > 0.

    A round where nobody counts gives zeros. No state. Measurements: `clients` and
    `trimmed_clients` (int32; those left out of each coordinate).

    Args:
      rule: A `trim_fraction` of 0 makes the trimmed mean the unweighted mean.
    """

    def __init__(self, rule: Median | TrimmedMean):
        self._rule = rule

    def create(
        self, value_type: tff.Type, weight_type: tff.Type
    ) -> tff.templates.AggregationProcess:
        """See base class; `weight_type` is a number."""
        require_float_tensors(value_type, "A robust mean")

        def middle(stacked):
            clients = num_clients(stacked)
            if isinstance(self._rule, TrimmedMean):
                exact = tf.cast(clients, tf.float64) * self._rule.trim_fraction
                cut = tf.cast(tf.floor(exact + 1e-9), tf.int32)  # 0.3 * 10 is 2.999...
            else:
                cut = tf.maximum((clients - 1) // 2, 0)
            measurements = collections.OrderedDict(clients=clients, trimmed_clients=2 * cut)
            return middle_mean(stacked, cut), measurements

        return build_stack_process(value_type, weight_type, middle)
