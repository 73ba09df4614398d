"""The aggregator "private_fedatt"."""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.aggregators.registry._layered import LayeredAggregator
from tff_keyboard.parts import calls
from tff_keyboard.parts.aggregator import AggregatorRun
from tff_keyboard.storage.checks import NotNegative, Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateFedAttConfig(LayeredAggregator):
    """FedAtt with differential privacy, as one Gaussian mechanism (docs/privacy/private_fedatt.md).

    `clip_norm` of `[aggregation.privacy]` bounds each layer, not the whole update. With fewer
    layers, less noise is needed.

    Attributes:
      attention_bound: Bound B on the logarithm of an attention weight, >= 0. Attention weights are
        in [1, e^B]; with 0 all clients have equal weight.
      denominator_floor: Lower bound on the noisy sum of the attention weights, in units of a client
        with the largest weight. It prevents a division by a sum that noise made too small.
    """

    factory: ClassVar[str] = "tff_keyboard.aggregators.fedatt.private_fedatt:PrivateFedAttFactory"
    required_privacy: ClassVar[str] = "gaussian"
    required_privacy_reason: ClassVar[str] = (
        "it has fixed clip norms, and its ratio needs the sum of each round, not a running sum."
    )
    secure_sum_problem: ClassVar[str] = "its records are not on a grid of integers"

    type: Literal["private_fedatt"] = "private_fedatt"
    attention_bound: NotNegative = 1.0
    denominator_floor: Positive = 1.0

    def build(self, run: AggregatorRun) -> Any:
        """See base class. `run` must have the mechanism "gaussian"."""
        options = self.arguments() | {
            "noise_multiplier": run.privacy.noise_multiplier,
            "layer_clip_norm": run.privacy.clip_norm,
            "draws_noise": False,
        }
        return calls.call(self.factory, options, vars(run))
