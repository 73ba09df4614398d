"""Counts the bytes of uncompressed uploads; `compression.py` counts bytes of encoded updates.

All clients of a round are counted, including clients with a rejected update. Only the update is
counted: a client's weight takes 4 more bytes (FedMed's: 8 and 4 per layer), and framing depends on
the transport.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_factory, tensor_types
from tff_keyboard.aggregators.processes import AggregationProcess, Factory, build_process


def raw_bytes(value_type: tff.Type) -> int:
    """Returns the number of bytes of one uncompressed upload.

    >>> raw_bytes(tff.TensorType(np.float32, [10]))
    40
    """
    tensors = tensor_types(value_type)
    return sum(int(np.prod(x.shape)) * np.dtype(x.dtype).itemsize for x in tensors)


class UploadSizeFactory(tff.aggregators.WeightedAggregationFactory):
    """Measures the size of the uploads, and passes them unchanged to `inner`.

        aggregator = tk.aggregators.UploadSize(tk.aggregators.FedAtt(2))

    The state is the state of `inner`. Measurements: `uploaded_bytes`, `uncompressed_bytes` (int64,
    over all clients of the round; both are equal) and `inner`.

    Args:
      inner: A weighted factory.
    """

    def __init__(self, inner: Factory):
        require_factory(inner)
        self._inner = inner

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """Creates the process for these types."""
        inner = self._inner.create(value_type, weight_type)
        uncompressed_bytes = raw_bytes(value_type)

        @tff.tensorflow.computation(np.int32)
        def count_bytes(clients):
            return tf.cast(clients, tf.int64) * uncompressed_bytes

        def next_fn(state, value, weight):
            output = inner.next(state, value, weight)
            clients = tff.federated_sum(tff.federated_value(1, tff.CLIENTS))
            sent = tff.federated_map(count_bytes, clients)
            measurements = collections.OrderedDict(
                uploaded_bytes=sent, uncompressed_bytes=sent, inner=output.measurements
            )
            return output.state, output.result, measurements

        return build_process(inner.initialize, next_fn, value_type, weight_type)
