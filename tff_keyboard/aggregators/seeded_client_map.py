"""Applies a random function to each client's update before it is aggregated.

A client's draws depend only on (seed, purpose, round, client): the server sends one seed per round,
and a client folds in the hash of its update (`client_digest`). A resumed run repeats the bits, and
neither the order of clients nor the number of workers matters.
"""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_factory
from tff_keyboard.aggregators.processes import AggregationProcess, build_process
from tff_keyboard.aggregators.seeded_noise import client_digest, fold_in, run_seed


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
