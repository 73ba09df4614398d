"""Keeps broken updates from the model: NaN, infinity, an invalid or an inflated weight.

A rejected client arrives at the inner aggregator as an update of zeros with weight 0. A weighted
mean, FedAtt, FedMed and medians then ignore it, and a differentially private sum adds zeros. TFF's
own zeroing and clipping let NaN pass, because NaN > bound is false; put this guard outside of them.
A client that claims an impossible weight gets the largest possible one. The limit is a constant of
the config or the model, which clients cannot change; `weight_cap.py` follows the claims of clients.

The guard accepts every finite update, however large: it is no defence against an attacker that
avoids NaN. Its promise does not depend on the number of attackers.

Updates are checked in one pass over their memory:

    all finite  <=>  sum of squares is finite,   or it overflowed and each number is finite

A NaN or an infinity makes the sum NaN or infinite. Numbers above 1e19 may overflow it, so the exact
test runs only in this case. `tf.nn.l2_loss` writes nothing; `tf.math.is_finite` writes a tensor.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_factory
from tff_keyboard.aggregators.processes import AggregationProcess, Factory, build_process

# From a weight (finite, >= 0) to its limited value, in TensorFlow
WeightLimit: TypeAlias = Callable[[Any], Any]


def zero_or_one(weight: tf.Tensor) -> tf.Tensor:
    """Limits weights to 1, for equal weights of all clients that count."""
    return tf.cast(weight > 0, weight.dtype)


class UpdateGuardFactory(tff.aggregators.WeightedAggregationFactory):
    """Rejects updates that cannot be averaged, limits weights, and passes the others to `inner`.

        aggregator = tk.aggregators.UpdateGuard(tk.aggregators.FedAtt(2))

    An update is rejected if a tensor contains a NaN or an infinity, or if a number of its weight is
    negative or not finite. The state is the state of `inner`. Measurements: `refused_non_finite`
    (int32, number of rejected updates), `impossible_claims` (int32, number of clients whose weight
    was limited) and `inner`.

    Args:
      inner: A weighted factory. A weight may be a structure (FedMed); all of it becomes 0.
      limit: Upper limit of a weight; None trusts the clients.
    """

    def __init__(self, inner: Factory, *, limit: WeightLimit | None = None):
        require_factory(inner)
        self._inner = inner
        self._limit = limit or (lambda weight: weight)

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """Creates the process for these types."""
        inner = self._inner.create(value_type, weight_type)

        @tff.tensorflow.computation(value_type, weight_type)
        def guard(value, weight):
            """Returns the update and weight to send, and two flags: refused, and weight capped.

            A refused update is sent as zeros with weight zero. The flags are int32, 0 or 1.
            """
            accepted = tf.logical_and(
                all_finite(tf.nest.flatten(value)),
                _all(_is_sensible(x) for x in tf.nest.flatten(weight)),
            )
            limited = self._limit(weight)
            pairs = zip(tf.nest.flatten(weight), tf.nest.flatten(limited), strict=True)
            is_unchanged = _all(tf.reduce_all(tf.equal(a, b)) for a, b in pairs)
            capped = tf.logical_and(accepted, tf.logical_not(is_unchanged))
            sent = (value, limited)
            # Unlike `tf.where`, a condition does not copy the update of an accepted client.
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


@tf.autograph.experimental.do_not_convert
def all_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns a bool scalar; True without tensors. Integer tensors are finite."""
    tensors = [tensor for tensor in map(tf.convert_to_tensor, tensors) if tensor.dtype.is_floating]
    if not tensors:
        return tf.constant(True)
    sums_are_finite = tf.reduce_all(
        tf.stack([tf.math.is_finite(tf.nn.l2_loss(x)) for x in tensors])
    )

    def exactly() -> tf.Tensor:
        return tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(x)) for x in tensors]))

    return tf.cond(sums_are_finite, lambda: tf.constant(True), exactly)
