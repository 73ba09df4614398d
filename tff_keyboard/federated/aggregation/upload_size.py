"""Counts the bytes clients upload, with and without compression.

All clients of a round are counted, those whose update is refused too. What counts is the delta: a
client's weight is 4 bytes more (FedMed's: 8 and 4 a layer), and framing is the transport's.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.layers import tensor_types
from tff_keyboard.federated.aggregation.processes import AggregationProcess, Factory, build_process

RANGE_BYTES = 8  # minimum and maximum of a quantised tensor, float32


def encoded_bytes(value_type: tff.Type, *, bits: int, threshold: int) -> int:
    """Bytes of one upload: packed integers and ranges, or the tensor itself where it is small.

    >>> encoded_bytes(tff.TensorType(np.float32, [1000]), bits=4, threshold=10)
    508
    >>> encoded_bytes(tff.TensorType(np.float32, [10]), bits=4, threshold=10)
    40
    """
    total = 0
    for tensor in tensor_types(value_type):
        size = int(np.prod(tensor.shape))
        packed = RANGE_BYTES + -(-size * bits // 8)
        total += packed if size > threshold else size * np.dtype(tensor.dtype).itemsize
    return total


def raw_bytes(value_type: tff.Type) -> int:
    """Bytes of one upload that is not compressed."""
    return encoded_bytes(value_type, bits=1, threshold=2**62)


class UploadSizeFactory(tff.aggregators.WeightedAggregationFactory):
    """Hands all over to `inner` and measures what was uploaded.

    State is that of `inner`. Measurements: `uploaded_bytes`, `uncompressed_bytes` (int64, all
    clients of the round) and `inner`.

    Args:
      inner: A weighted factory.
      bits: Bits a coordinate, where `inner` encodes tensors of more than `threshold` elements;
        None: deltas are sent whole.
      threshold: See `bits`.
    """

    def __init__(self, inner: Factory, *, bits: int | None = None, threshold: int = 0):
        self._inner = inner
        self._bits = bits
        self._threshold = threshold

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """The process, for these types."""
        inner = self._inner.create(value_type, weight_type)
        whole = raw_bytes(value_type)
        sent = whole
        if self._bits is not None:
            sent = encoded_bytes(value_type, bits=self._bits, threshold=self._threshold)

        @tff.tensorflow.computation(np.int32)
        def count_bytes(clients):
            clients = tf.cast(clients, tf.int64)
            return clients * sent, clients * whole

        def next_fn(state, value, weight):
            output = inner.next(state, value, weight)
            clients = tff.federated_sum(tff.federated_value(1, tff.CLIENTS))
            uploaded, uncompressed = tff.federated_map(count_bytes, clients)
            measurements = collections.OrderedDict(
                uploaded_bytes=uploaded, uncompressed_bytes=uncompressed, inner=output.measurements
            )
            return output.state, output.result, measurements

        return build_process(inner.initialize, next_fn, value_type, weight_type)
