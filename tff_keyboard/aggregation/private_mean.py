"""Differentially private means by name: "gaussian", "gaussian_adaptive", "tree", "tree_adaptive".

The mean's denominator is the report goal, not the number of reports: who took part is private.
Client weights are ignored. Zeroing by an un-noised quantile, as `tff.learning.dp_aggregator` adds
by default, is not offered: no accounting covers it.
"""

from typing import Any

import tensorflow_federated as tff

from tff_keyboard.aggregation.adaptive_clip import AdaptiveClip
from tff_keyboard.aggregation.layers import require_float_tensors
from tff_keyboard.aggregation.seeded_gaussian import SeededGaussianQuery
from tff_keyboard.aggregation.seeded_tree import SeededTreeQuery

MECHANISMS = ("gaussian", "gaussian_adaptive", "tree", "tree_adaptive")


class PrivateMeanFactory(tff.aggregators.UnweightedAggregationFactory):
    """Noisy mean of clipped deltas; state and measurements are TFF's `DPAggregatorState`.

    Measurements: `dp_query_metrics` with `clip_norm` and `noise_stddev`, and `dp`.

    Args:
      mechanism: One of `MECHANISMS`.
      clip_norm: L2 bound on one client's delta, > 0; the first one where it adapts.
      noise_multiplier: Noise standard deviation / clip norm, >= 0.
      clients_per_round: The report goal, >= 1.
      seed: Of the run, >= 0.
      target_quantile: Adaptive: share of clients left unclipped, in (0, 1).
      clip_learning_rate: Adaptive: > 0.
      clipped_count_noise: Adaptive: noise on the count / clients_per_round, > 0 under noise.
      restart_rounds: Trees: rounds of a tree; 0 means one tree ("tree_adaptive" needs > 0).
      record_aggregation: How clipped deltas are summed; None is a plain sum. It must not
        increase their norms (a secure sum does not).

    Raises:
      ValueError: An argument is out of range, or adaptive clipping would spend all of the noise.
    """

    def __init__(
        self,
        mechanism: str,
        *,
        clip_norm: float,
        noise_multiplier: float,
        clients_per_round: int,
        seed: int,
        target_quantile: float = 0.5,
        clip_learning_rate: float = 0.2,
        clipped_count_noise: float = 0.05,
        restart_rounds: int = 0,
        record_aggregation: tff.aggregators.UnweightedAggregationFactory | None = None,
    ):
        if mechanism not in MECHANISMS:
            raise ValueError(f"`mechanism` must be one of {', '.join(MECHANISMS)}; {mechanism!r}.")
        if not clip_norm > 0:
            raise ValueError(f"`clip_norm` must be > 0 in weight units, got {clip_norm!r}.")
        if not noise_multiplier >= 0:
            raise ValueError(f"`noise_multiplier` must be >= 0, got {noise_multiplier!r}.")
        if clients_per_round < 1:
            raise ValueError(f"`clients_per_round` must be >= 1, got {clients_per_round}.")
        if seed < 0:
            raise ValueError(f"`seed` must be >= 0, got {seed}.")
        adaptive = None
        if mechanism.endswith("_adaptive"):
            adaptive = AdaptiveClip(
                target_quantile=target_quantile,
                learning_rate=clip_learning_rate,
                count_stddev=clipped_count_noise * clients_per_round,
                expected_clients=float(clients_per_round),
            )
        self._is_tree = mechanism.startswith("tree")
        self._arguments: dict[str, Any] = {
            "clip_norm": float(clip_norm),
            "noise_multiplier": float(noise_multiplier),
            "seed": seed,
            "denominator": float(clients_per_round),
            "adaptive": adaptive,
        }
        self._restart_rounds = restart_rounds
        self._record_aggregation = record_aggregation
        if not self._is_tree:
            SeededGaussianQuery(**self._arguments)  # refuses now what `create` would refuse later
        else:
            self._tree_query(specs=None)

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """See base class."""
        require_float_tensors(value_type, "A private mean")
        if self._is_tree:
            query = self._tree_query(tff.types.type_to_tf_tensor_specs(value_type))
        else:
            query = SeededGaussianQuery(**self._arguments)
        factory = tff.aggregators.DifferentiallyPrivateFactory(query, self._record_aggregation)
        return factory.create(value_type)

    def _tree_query(self, specs) -> SeededTreeQuery:
        return SeededTreeQuery(specs=specs, restart_rounds=self._restart_rounds, **self._arguments)
