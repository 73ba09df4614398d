"""FedAtt's randomisation: each client adds beta * N(0, sigma^2) before it sends.

    theta_k <- theta_k + beta * N(0, sigma^2)

NOT a differential privacy guarantee: deltas are not clipped, so no sigma hides any person; and the
paper's attention scores see the noise too. For a guarantee use `private_fedatt.py`.

Source: Ji et al. 2019, eq. 6, https://arxiv.org/abs/1812.07108.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config.sections.aggregation_config import NormalClientNoise
from tff_keyboard.federated.aggregation.layers import require_float_tensors
from tff_keyboard.federated.aggregation.processes import AggregationProcess, Factory
from tff_keyboard.federated.aggregation.seeded_client_map import SeededClientMapFactory
from tff_keyboard.federated.aggregation.seeded_noise import seeded_normal

_PURPOSE = 6


class ClientNoiseFactory(tff.aggregators.WeightedAggregationFactory):
    """Adds eq. 6's noise on each client, then hands over to `inner`.

    State: `round` (int32, rounds done) and `inner`. Measurements are those of `inner`.

    Args:
      inner: A weighted factory.
      noise: Config; None: that of `scale`.
      scale: beta times sigma, the standard deviation in weight units, > 0. None: as `noise` has
        it, or 0.001.
      seed: Seed of the run, >= 0.

    Raises:
      ValueError: An argument is out of range.
    """

    def __init__(
        self,
        inner: Factory,
        noise: NormalClientNoise | None = None,
        *,
        scale: float | None = None,
        seed: int = 0,
    ):
        self._stddev = (noise or NormalClientNoise()).changed(scale=scale).scale
        self._mapped = SeededClientMapFactory(inner, self._noisy, seed=seed, purpose=_PURPOSE)

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """The process, for these types."""
        require_float_tensors(value_type, "Client noise")
        return self._mapped.create(value_type, weight_type)

    def _noisy(self, value: Any, seed: tf.Tensor) -> Any:
        noise = seeded_normal(value, seed, self._stddev)
        return tf.nest.map_structure(tf.add, value, noise)
