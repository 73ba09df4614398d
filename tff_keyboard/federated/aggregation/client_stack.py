"""All deltas of a cohort side by side on the server: what order statistics need.

For simulations: memory grows with the cohort, no secure sum fits, and nothing bounds what the
server learns of a client.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.processes import AggregationProcess, build_process, no_state


def stacked_type(value_type: tff.Type) -> tff.Type:
    """Tensors [clients, ...] for tensors [...]; the number of clients is open."""
    return tff.types.structure_from_tensor_type_tree(
        lambda t: tff.TensorType(t.dtype, (None, *t.shape)), value_type
    )


def build_client_stack(value_type: tff.Type, weight_type: tff.Type) -> tff.Computation:
    """Gathers deltas and weights of the clients into the stack at the server.

    `weight_type` is a number's: a client of weight 0 is left out, otherwise it does not count.
    """
    specs = tff.types.type_to_tf_tensor_specs(value_type)
    stack = stacked_type(value_type)

    @tff.tensorflow.computation
    def zero():
        return tf.nest.map_structure(lambda s: tf.zeros([0, *s.shape], s.dtype), specs)

    def append(a: Any, b: Any) -> Any:  # quadratic in clients, for cohorts of a simulation
        return tf.nest.map_structure(lambda x, y: tf.concat([x, y], 0), a, b)

    @tff.tensorflow.computation(stack, tff.to_type([value_type, weight_type]))
    def accumulate(stacked, client):
        value, weight = client
        rows = tf.cast(tf.cast(weight, tf.float32) > 0, tf.int32)  # 1 or none
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
    """A rule without state that sees all deltas at once.

    `combine` is a TensorFlow function from a stack to the rule's result and its measurements.
    """
    stack = build_client_stack(value_type, weight_type)
    combined = tff.tensorflow.computation(combine, stacked_type(value_type))

    def next_fn(state, value, weight):
        return state, *tff.federated_map(combined, stack(value, weight))

    return build_process(no_state, next_fn, value_type, weight_type)


def num_clients(stacked: Any) -> tf.Tensor:
    """Rows of a stack, int32."""
    return tf.shape(tf.nest.flatten(stacked)[0])[0]


def middle_mean(stacked: Any, cut: tf.Tensor) -> Any:
    """Each coordinate's mean without the `cut` lowest and highest of clients; zeros of nobody."""
    clients = num_clients(stacked)
    kept = tf.maximum(clients - 2 * cut, 0)

    def mean(column):
        ascending = tf.sort(column, axis=0)[cut : cut + kept]
        divisor = tf.cast(tf.maximum(kept, 1), column.dtype)
        return tf.reduce_sum(ascending / divisor, axis=0)

    return tf.nest.map_structure(mean, stacked)
