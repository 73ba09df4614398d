"""FedAtt's randomisation: each client adds beta * N(0, sigma^2) before it sends.

    theta_k <- theta_k + beta * N(0, sigma^2)

NOT a differential privacy guarantee: deltas are not clipped, so no sigma hides any person; and the
paper's attention scores see the noise too. For a guarantee use `private_fedatt.py`.

A client's noise is a pure function of (seed, round, client), where the client is told by the
hash of its delta: the server sends out one seed a round, nobody shares a stream, and a resumed run
repeats the bits. (A seed fixed in the graph would give all clients the same noise.) Clients with
bitwise equal deltas draw equal noise.

Source: Ji et al. 2019, eq. 6, https://arxiv.org/abs/1812.07108.
"""

import collections
import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation.client_digest import client_digest
from tff_keyboard.aggregation.layers import require_float_tensors
from tff_keyboard.aggregation.seeded_noise import fold_in, run_seed, seeded_normal

_PURPOSE = 6


class ClientNoiseFactory(tff.aggregators.WeightedAggregationFactory):
    """Adds eq. 6's noise on each client, then hands over to `inner`.

    State: `round` (int32, rounds done) and `inner`. Measurements are those of `inner`.

    Args:
      inner: A weighted factory.
      scale: beta, >= 0; 0 adds nothing.
      stddev: sigma, in weight units, > 0.
      seed: Of the run, >= 0.

    Raises:
      ValueError: An argument is out of range.
    """

    def __init__(
        self,
        inner: tff.aggregators.WeightedAggregationFactory,
        *,
        scale: float,
        stddev: float,
        seed: int,
    ):
        if not (math.isfinite(scale) and scale >= 0):
            raise ValueError(f"`scale` must be >= 0, got {scale!r}.")
        if not (math.isfinite(stddev) and stddev > 0):
            raise ValueError(f"`stddev` must be > 0 in weight units, got {stddev!r}.")
        if seed < 0:
            raise ValueError(f"`seed` must be >= 0, got {seed}.")
        self._inner = inner
        self._stddev = scale * stddev
        self._seed = seed

    def create(
        self, value_type: tff.Type, weight_type: tff.Type
    ) -> tff.templates.AggregationProcess:
        """See base class."""
        require_float_tensors(value_type, "Client noise")
        inner = self._inner.create(value_type, weight_type)

        @tff.tensorflow.computation
        def first_round():
            return tf.constant(0)

        @tff.tensorflow.computation(np.int32)
        def round_seed(round_num):
            return fold_in(run_seed(self._seed, _PURPOSE), round_num), round_num + 1

        seed_type = round_seed.type_signature.result[0]

        @tff.tensorflow.computation(value_type, seed_type)
        def add_noise(value, seed):
            noise = seeded_normal(value, fold_in(seed, client_digest(value)), self._stddev)
            return tf.nest.map_structure(tf.add, value, noise)

        @tff.federated_computation
        def init_fn():
            return tff.federated_zip(
                collections.OrderedDict(
                    round=tff.federated_eval(first_round, tff.SERVER), inner=inner.initialize()
                )
            )

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            seed, next_round = tff.federated_map(round_seed, state["round"])
            noisy = tff.federated_map(add_noise, (value, tff.federated_broadcast(seed)))
            output = inner.next(state["inner"], noisy, weight)
            new_state = collections.OrderedDict(round=next_round, inner=output.state)
            return tff.templates.MeasuredProcessOutput(
                tff.federated_zip(new_state), output.result, output.measurements
            )

        return tff.templates.AggregationProcess(init_fn, next_fn)
