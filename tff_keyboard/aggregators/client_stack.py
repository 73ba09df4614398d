"""Stacks all updates of a cohort on the server, as order statistics require.

For simulations: the memory grows with the cohort, a secure sum is not possible, and the server sees
every client's update.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_float_tensors
from tff_keyboard.aggregators.processes import AggregationProcess, build_process, no_state


def stacked_type(value_type: tff.Type) -> tff.Type:
    """Returns the type with tensors [clients, ...] for tensors [...]. `clients` is open."""
    return tff.types.structure_from_tensor_type_tree(
        lambda t: tff.TensorType(t.dtype, (None, *t.shape)), value_type
    )


def build_client_stack(value_type: tff.Type, weight_type: tff.Type) -> tff.Computation:
    """Builds the computation that stacks updates of the clients at the server.

    `weight_type` must be a number. A client of weight 0 is left out; otherwise the weight does not
    matter.
    """
    specs = tff.types.type_to_tf_tensor_specs(value_type)
    stack = stacked_type(value_type)

    @tff.tensorflow.computation
    def zero():
        return tf.nest.map_structure(lambda s: tf.zeros([0, *s.shape], s.dtype), specs)

    def append(a: Any, b: Any) -> Any:  # quadratic in the number of clients, for simulations
        return tf.nest.map_structure(lambda x, y: tf.concat([x, y], 0), a, b)

    @tff.tensorflow.computation(stack, tff.to_type([value_type, weight_type]))
    def accumulate(stacked, client):
        value, weight = client
        rows = tf.cast(tf.cast(weight, tf.float32) > 0, tf.int32)  # 1 or 0
        return append(stacked, tf.nest.map_structure(lambda x: x[tf.newaxis][:rows], value))

    merge = tff.tensorflow.computation(append, stack, stack)
    report = tff.tensorflow.computation(lambda stacked: stacked, stack)

    @tff.federated_computation(
        tff.FederatedType(value_type, tff.CLIENTS), tff.FederatedType(weight_type, tff.CLIENTS)
    )
    def stack_clients(value, weight):
        clients = tff.federated_zip((value, weight))
        return tff.federated_aggregate(clients, zero(), accumulate, merge, report)

    return stack_clients


def build_stack_process(
    value_type: tff.Type, weight_type: tff.Type, combine: Callable[[Any], tuple[Any, Any]]
) -> AggregationProcess:
    """Builds a stateless aggregation that sees all updates at once.

    `combine` is a TensorFlow function from a stack to the result and the measurements.
    """
    stack = build_client_stack(value_type, weight_type)
    combined = tff.tensorflow.computation(combine, stacked_type(value_type))

    def next_fn(state, value, weight):
        return state, *tff.federated_map(combined, stack(value, weight))

    return build_process(no_state, next_fn, value_type, weight_type)


class StackFactory(tff.aggregators.WeightedAggregationFactory):
    """Aggregates by a function of all updates of a cohort; clients of weight 0 are left out.

    Args:
      combine: TensorFlow function from a stack to the result and the measurements.
      name: Name of the aggregator in error messages, such as "A robust mean".
    """

    def __init__(self, combine: Callable[[Any], tuple[Any, Any]], name: str):
        self._combine = combine
        self._name = name

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class. `weight_type` must be a number."""
        require_float_tensors(value_type, self._name)
        return build_stack_process(value_type, weight_type, self._combine)


def rows_of(stacked: tf.Tensor) -> tf.Tensor:
    """Reshapes [clients, ...] to one row per client, [clients, coordinates], float64."""
    num_coordinates = stacked.shape[1:].num_elements()
    return tf.reshape(tf.cast(stacked, tf.float64), [tf.shape(stacked)[0], num_coordinates])


def num_clients(stacked: Any) -> tf.Tensor:
    """Returns the number of rows of a stack, int32."""
    return tf.shape(tf.nest.flatten(stacked)[0])[0]


def middle_mean(stacked: Any, cut: tf.Tensor) -> Any:
    """Returns the trimmed mean: each coordinate's mean without the `cut` lowest and highest values.

    Args:
      stacked: Tensors [clients, ...].
      cut: Values to leave out at each end, int32.

    Returns:
      Tensors [...]. The mean is 0 if no client is left.
    """
    clients = num_clients(stacked)
    remaining = tf.maximum(clients - 2 * cut, 0)

    def mean(column):
        middle = tf.sort(column, axis=0)[cut : cut + remaining]
        divisor = tf.cast(tf.maximum(remaining, 1), column.dtype)
        return tf.reduce_sum(middle / divisor, axis=0)

    return tf.nest.map_structure(mean, stacked)
