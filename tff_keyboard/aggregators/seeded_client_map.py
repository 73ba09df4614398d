"""Applies a random function to each client's update before it is aggregated.

A client's draws depend only on (seed, purpose, round, client): the server sends one seed per round,
and a client folds in the hash of its update (`client_digest`). A resumed run repeats the bits, and
neither the order of clients nor the number of workers matters.

This is for uses without a privacy guarantee: client noise (FedAtt's eq. 6) and random rounding. The
generator is Philox 4x32: fast and identical on every machine, but not cryptographic, and its
normals end at 5.678 standard deviations. The privacy mechanisms use another source of noise
(`algorithms/rounds/noised.py`).
"""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_factory
from tff_keyboard.aggregators.processes import AggregationProcess, build_process

_ALGORITHM = "philox"  # named, because "auto_select" depends on the device


class SeededClientMapFactory(tff.aggregators.WeightedAggregationFactory):
    """Passes `change(update, seed)` of each client to `inner`.

    State: `round` (int32, finished rounds) and `inner`. Measurements: as `inner` gives; with
    `counts`, the sum over clients of each count, and `inner`.

    Args:
      inner: A weighted factory.
      change: Maps an update and a seed ([2] int64) to an update of the same type, in TensorFlow;
        with `counts`, to the update and an ordered dict of scalars.
      seed: Seed of the run.
      purpose: Distinguishes different uses of one seed.
      counts: Whether `change` returns counts.
    """

    def __init__(
        self,
        inner: tff.aggregators.WeightedAggregationFactory,
        change: Callable[[Any, tf.Tensor], Any],
        *,
        seed: int,
        purpose: int,
        counts: bool = False,
    ):
        require_factory(inner)
        if seed < 0:
            raise ValueError(f"`seed` must be >= 0, got {seed}.")
        self._inner = inner
        self._change = change
        self._seed = seed
        self._purpose = purpose
        self._counts = counts

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        inner = self._inner.create(value_type, weight_type)

        @tff.tensorflow.computation(np.int32)
        def round_seed(round_num):
            return fold_in(run_seed(self._seed, self._purpose), round_num), round_num + 1

        seed_type = round_seed.type_signature.result[0]

        @tff.tensorflow.computation(value_type, seed_type)
        def change(value, seed):
            return self._change(value, fold_in(seed, client_digest(value)))

        def initialize():
            first = tff.federated_value(np.int32(0), tff.SERVER)
            return collections.OrderedDict(round=first, inner=inner.initialize())

        def next_fn(state, value, weight):
            seed, next_round = tff.federated_map(round_seed, state["round"])
            changed = tff.federated_map(change, (value, tff.federated_broadcast(seed)))
            counted: dict[str, Any] = {}
            if self._counts:
                changed, counts = changed
                names = tff.structure.name_list(counts.type_signature.member)
                counted = {name: tff.federated_sum(counts[name]) for name in names}
            output = inner.next(state["inner"], changed, weight)
            after = collections.OrderedDict(round=next_round, inner=output.state)
            measurements = output.measurements
            if counted:
                measurements = collections.OrderedDict(**counted, inner=measurements)
            return after, output.result, measurements

        return build_process(initialize, next_fn, value_type, weight_type)


def fold_in(seed: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    """Returns a new seed, [2] int64, from a seed and an integer. The seeds are unrelated."""
    return tf.random.experimental.stateless_fold_in(
        tf.cast(seed, tf.int64), tf.cast(data, tf.int64), alg=_ALGORITHM
    )


def run_seed(seed: int, purpose: int) -> tf.Tensor:
    """Returns the seed of one purpose within a run. Purposes never share a stream."""
    return tf.constant([seed, purpose], tf.int64)


def client_digest(value: Any) -> tf.Tensor:
    """Returns 64 bits that identify a client in a round: the FarmHash64 of its update, int64.

    TFF gives a client neither a name nor a position, but ties must be resolved equally on one
    worker and on several, and a client's own randomness must be the same when a round is repeated
    and differ from other clients'. Clients with equal updates share a digest.
    """
    parts = [
        tf.raw_ops.Fingerprint(data=tf.reshape(x, [1, -1]), method="farmhash64")  # [1, 8] uint8
        for x in tf.nest.flatten(value)
    ]
    fingerprint = tf.raw_ops.Fingerprint(data=tf.concat(parts, axis=1), method="farmhash64")
    return tf.bitcast(fingerprint[0], tf.int64)


def seeded_normal(specs: Any, seed: tf.Tensor, stddev: tf.Tensor) -> Any:
    """Returns N(0, stddev^2) for each tensor of `specs`, independent across tensors and seeds.

    Args:
      specs: A structure of tensors or `tf.TensorSpec`s with static shapes.
      seed: [2] int64.
      stddev: Scalar >= 0; 0 gives exactly 0.
    """
    flat = tf.nest.flatten(specs)
    noise = [
        tf.cast(stddev, x.dtype)
        * tf.random.stateless_normal(x.shape, fold_in(seed, i), dtype=x.dtype, alg=_ALGORITHM)
        for i, x in enumerate(flat)
    ]
    return tf.nest.pack_sequence_as(specs, noise)
