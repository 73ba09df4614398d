"""Median and trimmed mean of each coordinate, robust to a minority of arbitrary clients.

    median:        result_i = median_k delta_k[i]                    (mean of the middle two)
    trimmed mean:  result_i = mean of delta_k[i] without the g lowest and the g highest,
                   g = floor(trim_fraction * M)

All clients of weight > 0 count equally. Every coordinate of the result is in the range of the
honest values that arrive here if the M clients have at most (M - 1) // 2 attackers (median), or at
most g (trimmed mean). These numbers do not depend on a share of attackers, so they are exceeded
with the probability P(Binomial(M, share) > g): in 323 of 1,000 rounds for 10 % attackers, M = 20
and `trim_fraction` = 0.1 (`attackers_in_cohort.py`, docs/attacks.md).

The values that arrive are the clients' updates, unless a guard around this aggregator clips or
zeroes them. An adaptive bound follows updates of attackers, too (`guards/norm_bounds.py`). The
range is then that of the bounded values.

Source: Yin et al. 2018, Definitions 1 and 2, https://arxiv.org/abs/1803.01498.
"""

import collections
from typing import Any

import tensorflow as tf

from tff_keyboard.aggregators import client_stack
from tff_keyboard.aggregators.registry.trimmed_mean import TrimmedMeanConfig
from tff_keyboard.parts.tables import documented_by


class _RobustMeanFactory(client_stack.StackFactory):
    """Mean of the middle values of each coordinate over clients of weight > 0."""

    def __init__(self) -> None:
        super().__init__(self._middle, "A robust mean")

    def _cut(self, clients: tf.Tensor) -> tf.Tensor:
        """Returns the number of clients left out on each side, int32."""
        raise NotImplementedError

    def _middle(self, stacked: Any) -> tuple[Any, Any]:
        """Returns the mean of the middle values, and the measurements."""
        clients = client_stack.num_clients(stacked)
        cut = self._cut(clients)
        measurements = collections.OrderedDict(clients=clients, trimmed_clients=2 * cut)
        return client_stack.middle_mean(stacked, cut), measurements


class MedianFactory(_RobustMeanFactory):
    """Median of each coordinate over clients of weight > 0. Takes no arguments.

        aggregator = tk.aggregators.Median()

    A round without such clients gives zeros. No state. Measurements (int32): `clients`, and
    `trimmed_clients`, the number of clients that are left out of each coordinate.
    """

    def _cut(self, clients: tf.Tensor) -> tf.Tensor:
        return tf.maximum((clients - 1) // 2, 0)


@documented_by(TrimmedMeanConfig)
class TrimmedMeanFactory(_RobustMeanFactory):
    """Trimmed mean of each coordinate over clients of weight > 0.

        aggregator = tk.aggregators.TrimmedMean(0.2)

    A round without such clients gives zeros. No state. Measurements (int32): `clients`, and
    `trimmed_clients`, the number of clients that are left out of each coordinate.

    Args:
      trim_fraction: See `TrimmedMeanConfig`.
    """

    def __init__(self, trim_fraction: float = TrimmedMeanConfig.trim_fraction):
        options = TrimmedMeanConfig.of_arguments(trim_fraction=trim_fraction)
        self._trim_fraction = options.trim_fraction
        super().__init__()

    def _cut(self, clients: tf.Tensor) -> tf.Tensor:
        exact = tf.cast(clients, tf.float64) * self._trim_fraction
        return tf.cast(tf.floor(exact + 1e-9), tf.int32)  # 0.3 * 10 is 2.999...
