"""Keeps broken updates from the model: NaN, infinity, a senseless or an inflated weight.

A refused client arrives at the inner aggregation as a delta of zeros with weight 0, so a weighted
mean, FedAtt, FedMed and medians leave it out, and a differentially private sum adds zeros. TFF's
own zeroing and clipping let NaN pass, because NaN > bound is false; this wraps outside them. A
client that claims what no client can counts for what one can: a limit is a fact of the config or
the model, which no client moves; what people bring `weight_cap.py` follows.
"""

import collections
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.guards.finiteness import all_finite
from tff_keyboard.federated.aggregation.processes import AggregationProcess, Factory, build_process

# From a weight (finite, >= 0) to what it may count at most, in TensorFlow.
WeightLimit: TypeAlias = Callable[[Any], Any]


def zero_or_one(weight: tf.Tensor) -> tf.Tensor:
    """The limit where all weigh alike: 1 for whoever counts, however much it claims."""
    return tf.cast(weight > 0, weight.dtype)


class UpdateGuardFactory(tff.aggregators.WeightedAggregationFactory):
    """Refuses updates that cannot be averaged, limits weights, hands the rest to `inner`.

    An update is refused when a tensor has a NaN or an infinity, or when any number of its weight is
    not finite or is negative. State is that of `inner`. Measurements: `refused_non_finite` and
    `impossible_claims` (int32 clients; those whose weight the limit changed) and `inner`.

    Args:
      inner: A weighted factory. A weight may be a structure (FedMed); all of it becomes 0.
      limit: What a weight may count at most; None trusts the clients.
    """

    def __init__(self, inner: Factory, limit: WeightLimit | None = None):
        self._inner = inner
        self._limit = limit or (lambda weight: weight)

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """The process, for these types."""
        inner = self._inner.create(value_type, weight_type)

        @tff.tensorflow.computation(value_type, weight_type)
        def guard(value, weight):
            accepted = tf.logical_and(
                all_finite(tf.nest.flatten(value)),
                _all(_is_sensible(x) for x in tf.nest.flatten(weight)),
            )
            limited = self._limit(weight)
            capped = tf.logical_and(accepted, _differ(weight, limited))
            sent = (value, limited)
            # A condition, unlike `tf.where`, copies nothing of a client that is fine.
            safe = tf.cond(
                accepted, lambda: sent, lambda: tf.nest.map_structure(tf.zeros_like, sent)
            )
            refused = tf.logical_not(accepted)
            return (*safe, tf.cast(refused, tf.int32), tf.cast(capped, tf.int32))

        def next_fn(state, value, weight):
            safe, safe_weight, refused, capped = tff.federated_map(guard, (value, weight))
            output = inner.next(state, safe, safe_weight)
            measurements = collections.OrderedDict(
                refused_non_finite=tff.federated_sum(refused),
                impossible_claims=tff.federated_sum(capped),
                inner=output.measurements,
            )
            return output.state, output.result, measurements

        return build_process(inner.initialize, next_fn, value_type, weight_type)


def _all(conditions: Iterable[tf.Tensor]) -> tf.Tensor:
    return tf.reduce_all(tf.stack([tf.constant(True), *conditions]))


def _is_sensible(weight: tf.Tensor) -> tf.Tensor:
    if not weight.dtype.is_floating:
        return tf.reduce_all(weight >= 0)
    return tf.reduce_all(tf.logical_and(tf.math.is_finite(weight), weight >= 0))


def _differ(weight: Any, limited: Any) -> tf.Tensor:
    pairs = zip(tf.nest.flatten(weight), tf.nest.flatten(limited), strict=True)
    return tf.logical_not(_all(tf.reduce_all(tf.equal(a, b)) for a, b in pairs))
