"""A defence against attackers: deltas are bounded, kept on course and trimmed by coordinate.

Of the deltas delta_k of M clients, f = ceil(attackers * M) of which may be anything:

    x_k    = delta_k min(1, R / ||delta_k||),  R the median of the norms
    c_t    = b m_{t-1} + (1 - b) (mean of each coordinate of x without the f lowest and f highest)
    p_k    = <x_k, c_t>,  P their median
    kept   = those with p_k > 0, and at least the half of the largest products
    result = mean of each coordinate of the kept without the g lowest and g highest,
             g = f less the number of p_k < -P / 2, at least 0
    m_t    = b m_{t-1} + (1 - b) result,  m_0 = 0,  b = 0.9

The norm bound takes the length of a boost; the course what pulls the model back; trimming what only
attackers want of a coordinate, as the rows of a backdoor's words. The course is that of the last
ten rounds because one round's is too noisy to tell, and is partly made of the delta that it judges:
of four turned deltas in twenty the round's own trimmed mean found 1.6, the course 3.8. Whoever goes
clearly the other way is taken for one of the f, so that fewer honest values are trimmed. Not so
whoever is left out: now and then an honest client is, and trimming one less lets a backdoor in.

Related: Cao et al. 2021 (FLTrust, https://arxiv.org/abs/2012.13995), whose direction comes from
data of the server; Karimireddy et al. 2021 (https://arxiv.org/abs/2012.10333), who show that
without history no rule holds.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation.client_stack import (
    build_client_stack,
    middle_mean,
    num_clients,
    stacked_type,
)
from tff_keyboard.aggregation.layers import require_float_tensors
from tff_keyboard.config.rule_config import BoundedTrimmedMean

COURSE_MOMENTUM = 0.9


def bounded(stacked: Any) -> Any:
    """Clients' tensors [clients, ...], each client's scaled to at most the median L2 norm.

    In float64, where the square of no float32 overflows.
    """
    flat = tf.nest.flatten(stacked)
    rows = [_rows(x) for x in flat]
    norms = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(row), axis=1) for row in rows]))  # [clients]
    # Of an even number the lower middle: half of the clients are then at least as long.
    radius = _at(tf.sort(norms), tf.maximum((tf.shape(norms)[0] - 1) // 2, 0))
    factors = tf.minimum(radius / tf.maximum(norms, 1e-300), 1.0)
    scaled = [
        tf.cast(row * factors[:, tf.newaxis], x.dtype) for row, x in zip(rows, flat, strict=True)
    ]
    shaped = [tf.reshape(row, tf.shape(x)) for row, x in zip(scaled, flat, strict=True)]
    return tf.nest.pack_sequence_as(stacked, shaped)


def products_with(course: Any, stacked: Any) -> tf.Tensor:
    """[clients] float64, each client's inner product with `course`."""
    pairs = zip(tf.nest.flatten(stacked), tf.nest.flatten(course), strict=True)
    return tf.add_n([tf.reduce_sum(_rows(x) * _rows(c[tf.newaxis]), axis=1) for x, c in pairs])


def _rows(stacked: tf.Tensor) -> tf.Tensor:
    """[clients, ...] as [clients, numbers], float64."""
    numbers = stacked.shape[1:].num_elements()
    return tf.reshape(tf.cast(stacked, tf.float64), [tf.shape(stacked)[0], numbers])


def _at(vector: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
    """The number at `place`; 0 where the vector is empty."""
    return tf.reduce_sum(vector[place : place + 1])


def _blend(old: Any, new: Any) -> Any:
    return tf.nest.map_structure(
        lambda a, b: COURSE_MOMENTUM * a + (1 - COURSE_MOMENTUM) * b, old, new
    )


def _at_most_half(cut: tf.Tensor, clients: tf.Tensor) -> tf.Tensor:
    """What may be cut on each side so that somebody is left."""
    return tf.minimum(cut, tf.maximum((clients - 1) // 2, 0))


class BoundedTrimmedMeanFactory(tff.aggregators.WeightedAggregationFactory):
    """See the module; over clients of weight > 0, a round where nobody counts gives zeros.

    State: the course m, structured as a delta. Measurements: `clients`, `off_course` (int32 clients
    not kept) and `trimmed_clients` (int32, left out of each coordinate, those included).

    Args:
      rule: How many may attack.
    """

    def __init__(self, rule: BoundedTrimmedMean):
        self._attackers = rule.attackers

    def create(
        self, value_type: tff.Type, weight_type: tff.Type
    ) -> tff.templates.AggregationProcess:
        """See base class; `weight_type` is a number."""
        require_float_tensors(value_type, "A bounded trimmed mean")
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        stack = build_client_stack(value_type, weight_type)

        @tff.tensorflow.computation
        def no_course():
            return tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs)

        @tff.tensorflow.computation(stacked_type(value_type), value_type)
        def defended(stacked, course):
            clients = num_clients(stacked)
            exact = tf.cast(clients, tf.float64) * self._attackers
            expected = tf.cast(tf.math.ceil(exact - 1e-9), tf.int32)
            stacked = bounded(stacked)
            centre = middle_mean(stacked, _at_most_half(expected, clients))
            products = products_with(_blend(course, centre), stacked)
            median = _at(tf.sort(products), clients // 2)
            is_kept = tf.logical_or(products > 0, products >= median)
            is_opposed = tf.logical_and(products < -0.5 * median, median > 0)
            opposed = tf.math.count_nonzero(is_opposed, dtype=tf.int32)
            stacked = tf.nest.map_structure(lambda x: tf.boolean_mask(x, is_kept), stacked)
            kept = num_clients(stacked)
            cut = _at_most_half(tf.maximum(expected - opposed, 0), kept)
            result = middle_mean(stacked, cut)
            measurements = collections.OrderedDict(
                clients=clients,
                off_course=clients - kept,
                trimmed_clients=clients - kept + 2 * cut,
            )
            return _blend(course, result), result, measurements

        @tff.federated_computation
        def init_fn():
            return tff.federated_eval(no_course, tff.SERVER)

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            course, result, measurements = tff.federated_map(
                defended, (stack(value, weight), state)
            )
            return tff.templates.MeasuredProcessOutput(course, result, measurements)

        return tff.templates.AggregationProcess(init_fn, next_fn)
