"""Differentially private means of clipped deltas; which noise they get is decided outside.

The mean's denominator is the report goal, not the number of reports: who took part is private.
Client weights are ignored. Zeroing by an un-noised quantile, as `tff.learning.dp_aggregator` adds
by default, is not offered: no accounting covers it. The noise of a round, independent or a tree's
or correlated, is put into the state before the round (`host_noise.py`).
"""

import math
from typing import Any

import dp_accounting
import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.layers import require_float_tensors
from tff_keyboard.federated.aggregation.private.adaptive_clip import (
    AdaptiveClip,
    delta_noise_multiplier,
)
from tff_keyboard.federated.aggregation.private.noised_sum import NoisedSumQuery


class PrivateMeanFactory(tff.aggregators.UnweightedAggregationFactory):
    """Noisy mean of clipped deltas; state and measurements are TFF's `DPAggregatorState`.

    Measurements: `dp_query_metrics` with `clip_norm` and `noise_stddev`, and `dp`.

    Args:
      clip_norm: L2 bound on one client's delta, > 0; the first one where it adapts.
      noise_multiplier: Standard deviation of one draw of noise / clip norm, >= 0.
      clients_per_round: The report goal, >= 1.
      independent_noise: Whether every round gets noise of its own, which TFF's privacy event then
        says; no event says "correlated, with participation limits": the ledger does.
      adaptive: How the clip norm follows a quantile; None keeps it.
      clip_every: Rounds between changes of the clip norm with `adaptive`, >= 1.
      grid_bits: 0, or sum and noise are integers; see `NoisedSumQuery`.

    Raises:
      ValueError: An argument is out of range, or adaptive clipping would spend all of the noise.
    """

    def __init__(
        self,
        *,
        clip_norm: float,
        noise_multiplier: float,
        clients_per_round: int,
        independent_noise: bool = True,
        adaptive: AdaptiveClip | None = None,
        clip_every: int = 1,
        grid_bits: int = 0,
    ):
        if not (math.isfinite(clip_norm) and clip_norm > 0):
            raise ValueError(f"`clip_norm` must be > 0 in weight units, got {clip_norm!r}.")
        if not (math.isfinite(noise_multiplier) and noise_multiplier >= 0):
            raise ValueError(f"`noise_multiplier` must be >= 0, got {noise_multiplier!r}.")
        if clients_per_round < 1:
            raise ValueError(f"`clients_per_round` must be >= 1, got {clients_per_round}.")
        if clip_every < 1:
            raise ValueError(f"`clip_every` must be >= 1 round, got {clip_every}.")
        if adaptive is not None:  # refuses now what `create` would refuse later
            delta_noise_multiplier(noise_multiplier, adaptive.count_stddev)
        event: dp_accounting.DpEvent = dp_accounting.UnsupportedDpEvent()
        if independent_noise:
            event = dp_accounting.GaussianDpEvent(noise_multiplier)
        self._arguments: dict[str, Any] = {
            "clip_norm": float(clip_norm),
            "noise_multiplier": float(noise_multiplier),
            "event": event,
            "denominator": float(clients_per_round),
            "adaptive": adaptive,
            "clip_every": clip_every,
            "grid_bits": grid_bits,
        }

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """See base class."""
        require_float_tensors(value_type, "A private mean")
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        query = NoisedSumQuery(specs=specs, **self._arguments)
        factory = tff.aggregators.DifferentiallyPrivateFactory(query)
        return factory.create(value_type)
