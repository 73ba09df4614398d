"""Counts the bytes clients upload whole; `compression.py` counts those of encoded deltas.

All clients of a round are counted, those whose update is refused too. What counts is the delta: a
client's weight is 4 bytes more (FedMed's: 8 and 4 a layer), and framing is the transport's.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.layers import tensor_types
from tff_keyboard.federated.aggregation.processes import AggregationProcess, Factory, build_process


def raw_bytes(value_type: tff.Type) -> int:
    """Bytes of one upload that is not compressed.

    >>> raw_bytes(tff.TensorType(np.float32, [10]))
    40
    """
    tensors = tensor_types(value_type)
    return sum(int(np.prod(x.shape)) * np.dtype(x.dtype).itemsize for x in tensors)


class UploadSizeFactory(tff.aggregators.WeightedAggregationFactory):
    """Hands all over to `inner` and measures what was uploaded.

    State is that of `inner`. Measurements: `uploaded_bytes`, `uncompressed_bytes` (int64, all
    clients of the round; they are the same) and `inner`.

    Args:
      inner: A weighted factory.
    """

    def __init__(self, inner: Factory):
        self._inner = inner

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """The process, for these types."""
        inner = self._inner.create(value_type, weight_type)
        whole = raw_bytes(value_type)

        @tff.tensorflow.computation(np.int32)
        def count_bytes(clients):
            return tf.cast(clients, tf.int64) * whole

        def next_fn(state, value, weight):
            output = inner.next(state, value, weight)
            clients = tff.federated_sum(tff.federated_value(1, tff.CLIENTS))
            sent = tff.federated_map(count_bytes, clients)
            measurements = collections.OrderedDict(
                uploaded_bytes=sent, uncompressed_bytes=sent, inner=output.measurements
            )
            return output.state, output.result, measurements

        return build_process(inner.initialize, next_fn, value_type, weight_type)
