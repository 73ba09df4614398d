"""FedAtt's randomisation: each client adds beta * N(0, sigma^2) before it sends its update.

    theta_k <- theta_k + beta * N(0, sigma^2)

NOT a differential privacy guarantee: updates are not clipped, so no sigma hides a client, and the
paper's attention scores include the noise. For a guarantee use `private_fedatt.py`.

Source: Ji et al. 2019, eq. 6, https://arxiv.org/abs/1812.07108.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_float_tensors
from tff_keyboard.aggregators.processes import AggregationProcess, Factory
from tff_keyboard.aggregators.seeded_client_map import SeededClientMapFactory, seeded_normal
from tff_keyboard.storage.checks import POSITIVE

_PURPOSE = 6


class ClientNoiseFactory(tff.aggregators.WeightedAggregationFactory):
    """Adds the noise of FedAtt's eq. 6 on each client, and passes the update to `inner`.

        aggregator = tk.aggregators.ClientNoise(tk.aggregators.FedAtt(2), scale=1e-3, seed=1)

    State: `round` (int32, finished rounds) and `inner`. Measurements: as `inner` gives.

    Args:
      inner: A weighted factory.
      scale: beta times sigma, the standard deviation in weight units, > 0.
      seed: Seed of the run, >= 0.

    Raises:
      ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        inner: Factory,
        scale: float = 1e-3,
        *,
        seed: int = 0,
    ):
        POSITIVE.check("scale", scale)
        self._stddev = scale
        self._mapped = SeededClientMapFactory(inner, self._noisy, seed=seed, purpose=_PURPOSE)

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """Creates the process for these types."""
        require_float_tensors(value_type, "Client noise")
        return self._mapped.create(value_type, weight_type)

    def _noisy(self, value: Any, seed: tf.Tensor) -> Any:
        noise = seeded_normal(value, seed, self._stddev)
        return tf.nest.map_structure(tf.add, value, noise)
