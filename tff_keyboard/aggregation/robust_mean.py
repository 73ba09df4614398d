"""Median and trimmed means of coordinates: robust to a minority of arbitrary clients.

    median:        result_i = median_k delta_k[i]                    (mean of the middle two)
    trimmed mean:  result_i = mean of delta_k[i] without the g lowest and the g highest,
                   g = floor(trim_fraction * M)
    bounded:       the trimmed mean of x_k = delta_k min(1, R / ||delta_k||), R the median of the
                   norms, g = ceil(attackers * M), over the k with <x_k, c> > 0, where c is that
                   trimmed mean over all

The last is the defence of the attack table: the norm bound takes the length of a boost, the side of
c what pulls the model back, trimming what only attackers want of a coordinate, as the rows of a
backdoor's words.

For simulations: all need the M deltas on the server at once: memory grows, no secure sum fits, and
nothing bounds what the server learns of a client. Clients count equally; weight only says whether.

Source: Yin et al. 2018, Definitions 1 and 2, https://arxiv.org/abs/1803.01498.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation.layers import require_float_tensors
from tff_keyboard.config.rule_config import BoundedTrimmedMean, Median, TrimmedMean


def bounded(stacked: Any) -> Any:
    """Clients' tensors [clients, ...], each client's scaled to at most the median L2 norm.

    In float64, where the square of no float32 overflows.
    """
    flat = tf.nest.flatten(stacked)
    rows = [
        tf.reshape(tf.cast(x, tf.float64), [tf.shape(x)[0], x.shape[1:].num_elements()])
        for x in flat
    ]
    norms = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(row), axis=1) for row in rows]))  # [clients]
    ascending = tf.sort(norms)
    count = tf.shape(norms)[0]
    # Of an even number the lower middle: half of the clients are then at least as long.
    middle = tf.maximum((count - 1) // 2, 0)
    radius = tf.reduce_sum(ascending[middle : middle + 1])  # 0 where there is nobody
    factors = tf.minimum(radius / tf.maximum(norms, 1e-300), 1.0)
    scaled = [
        tf.cast(row * factors[:, tf.newaxis], x.dtype) for row, x in zip(rows, flat, strict=True)
    ]
    shaped = [tf.reshape(row, tf.shape(x)) for row, x in zip(scaled, flat, strict=True)]
    return tf.nest.pack_sequence_as(stacked, shaped)


def on_the_side_of(centre: Any, stacked: Any) -> Any:
    """Clients' tensors [clients, ...] of those whose product with `centre` is > 0."""
    flat = tf.nest.flatten(stacked)
    products = [
        tf.reduce_sum(
            tf.reshape(
                tf.cast(x, tf.float64) * tf.cast(c, tf.float64),
                [tf.shape(x)[0], x.shape[1:].num_elements()],
            ),
            axis=1,
        )
        for x, c in zip(flat, tf.nest.flatten(centre), strict=True)
    ]
    agrees = tf.add_n(products) > 0
    return tf.nest.map_structure(lambda x: tf.boolean_mask(x, agrees), stacked)


def middle_mean(stacked: Any, cut: tf.Tensor) -> Any:
    """Each coordinate's mean without the `cut` lowest and highest of clients; zeros of nobody."""
    clients = tf.shape(tf.nest.flatten(stacked)[0])[0]
    kept = tf.maximum(clients - 2 * cut, 0)

    def mean(column):
        ascending = tf.sort(column, axis=0)[cut : cut + kept]
        divisor = tf.cast(tf.maximum(kept, 1), column.dtype)
        return tf.reduce_sum(ascending / divisor, axis=0)

    return tf.nest.map_structure(mean, stacked)


def at_most_half(cut: tf.Tensor, clients: tf.Tensor) -> tf.Tensor:
    """What may be cut on each side so that somebody is left."""
    return tf.minimum(cut, tf.maximum((clients - 1) // 2, 0))


class RobustMeanFactory(tff.aggregators.WeightedAggregationFactory):
    """Median or trimmed mean of each coordinate over clients of weight > 0.

    A round where nobody counts gives zeros. No state. Measurements: `clients` and
    `trimmed_clients` (int32; those left out of each coordinate).

    Args:
      rule: A `trim_fraction` of 0 makes the trimmed mean the unweighted mean.
    """

    def __init__(self, rule: Median | TrimmedMean | BoundedTrimmedMean):
        self._rule = rule

    def create(
        self, value_type: tff.Type, weight_type: tff.Type
    ) -> tff.templates.AggregationProcess:
        """See base class; `weight_type` is a number."""
        require_float_tensors(value_type, "A robust mean")
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        stacked_type = tff.types.structure_from_tensor_type_tree(
            lambda t: tff.TensorType(t.dtype, (None, *t.shape)), value_type
        )

        @tff.tensorflow.computation
        def zero():
            return tf.nest.map_structure(lambda s: tf.zeros([0, *s.shape], s.dtype), specs)

        def append(a, b):  # quadratic in clients, for cohorts of a simulation
            return tf.nest.map_structure(lambda x, y: tf.concat([x, y], 0), a, b)

        @tff.tensorflow.computation(stacked_type, tff.to_type([value_type, weight_type]))
        def accumulate(stacked, client):
            value, weight = client
            rows = tf.cast(tf.cast(weight, tf.float32) > 0, tf.int32)  # 1 or none
            return append(stacked, tf.nest.map_structure(lambda x: x[tf.newaxis][:rows], value))

        @tff.tensorflow.computation(stacked_type, stacked_type)
        def merge(a, b):
            return append(a, b)

        @tff.tensorflow.computation(stacked_type)
        def report(stacked):
            clients = tf.shape(tf.nest.flatten(stacked)[0])[0]
            if isinstance(self._rule, TrimmedMean):
                exact = tf.cast(clients, tf.float64) * self._rule.trim_fraction
                cut = tf.cast(tf.floor(exact + 1e-9), tf.int32)  # 0.3 * 10 is 2.999...
            elif isinstance(self._rule, BoundedTrimmedMean):
                stacked = bounded(stacked)
                exact = tf.cast(clients, tf.float64) * self._rule.attackers
                wanted = tf.cast(tf.math.ceil(exact - 1e-9), tf.int32)
                stacked = on_the_side_of(
                    middle_mean(stacked, at_most_half(wanted, clients)), stacked
                )
                left = tf.shape(tf.nest.flatten(stacked)[0])[0]
                cut = at_most_half(wanted, left)
                measurements = collections.OrderedDict(
                    clients=clients, trimmed_clients=clients - left + 2 * cut
                )
                return middle_mean(stacked, cut), measurements
            else:
                cut = tf.maximum((clients - 1) // 2, 0)
            measurements = collections.OrderedDict(clients=clients, trimmed_clients=2 * cut)
            return middle_mean(stacked, cut), measurements

        @tff.federated_computation
        def init_fn():
            return tff.federated_value((), tff.SERVER)

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            clients = tff.federated_zip((value, weight))
            result, measurements = tff.federated_aggregate(
                clients, zero(), accumulate, merge, report
            )
            return tff.templates.MeasuredProcessOutput(state, result, measurements)

        return tff.templates.AggregationProcess(init_fn, next_fn)
