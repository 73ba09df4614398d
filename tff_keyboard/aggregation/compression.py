"""Smaller uploads, measured: quantisation on the client, under any aggregation.

Each large tensor x is sent as `bits` bits a coordinate and its minimum and maximum:

    q = floor((x - min) / (max - min) * (2^bits - 1) + u),   u uniform in [0, 1)

so that the decoded value is right on average (Suresh et al. 2017, section 2.2,
http://proceedings.mlr.press/v70/suresh17a.html). u is a pure function of (seed, round, delta): a
resumed run repeats the bits. The server decodes before it aggregates, hence FedAtt's norms,
FedMed's topK, clipping and noise all see what really arrived.

TFF's own `EncodedSumFactory`, which encodes inside a sum and so fits under a mean only, is
`tff_quantized_sum`. Its rounding is not seeded.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation.client_digest import client_digest
from tff_keyboard.aggregation.layers import require_float_tensors, tensor_types
from tff_keyboard.aggregation.seeded_noise import fold_in, run_seed

_PURPOSE = 3
_RANGE_BYTES = 8  # minimum and maximum, float32
_MAX_BITS = 16


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
        if size > threshold:
            total += -(-size * bits // 8) + _RANGE_BYTES
        else:
            total += size * np.dtype(tensor.dtype).itemsize
    return total


def raw_bytes(value_type: tff.Type) -> int:
    """Bytes of one upload that is not compressed."""
    return encoded_bytes(value_type, bits=1, threshold=2**62)


def quantize(tensor: tf.Tensor, bits: int, uniform: tf.Tensor) -> tf.Tensor:
    """The tensor after encoding and decoding; `uniform` in [0, 1) rounds. Finite in, finite out."""
    x = tf.cast(tensor, tf.float64)  # max - min of float32 may overflow float32
    low, high = tf.reduce_min(x), tf.reduce_max(x)
    levels = float(2**bits - 1)
    step = (high - low) / levels
    steps = tf.floor(tf.math.divide_no_nan(x - low, step) + tf.cast(uniform, tf.float64))
    return tf.cast(low + tf.clip_by_value(steps, 0.0, levels) * step, tensor.dtype)


class CompressedUploadFactory(tff.aggregators.WeightedAggregationFactory):
    """Quantises each delta on its client, then hands the decoded delta to `inner`.

    State: `round` (int32) and `inner`. Measurements: `uploaded_bytes` (int64, all clients of the
    round), `uncompressed_bytes`, and `inner`.

    Args:
      inner: A weighted factory.
      bits: Bits a coordinate, 1..16.
      threshold: Tensors of at most that many elements are sent whole; >= 0.
      seed: Of the run, >= 0.

    Raises:
      ValueError: An argument is out of range.
    """

    def __init__(
        self,
        inner: tff.aggregators.WeightedAggregationFactory,
        *,
        bits: int,
        threshold: int,
        seed: int,
    ):
        _check(bits, threshold)
        if seed < 0:
            raise ValueError(f"`seed` must be >= 0, got {seed}.")
        self._inner = inner
        self._bits = bits
        self._threshold = threshold
        self._seed = seed

    def create(
        self, value_type: tff.Type, weight_type: tff.Type
    ) -> tff.templates.AggregationProcess:
        """See base class."""
        require_float_tensors(value_type, "Compression")
        inner = self._inner.create(value_type, weight_type)
        sizes = (
            encoded_bytes(value_type, bits=self._bits, threshold=self._threshold),
            raw_bytes(value_type),
        )

        @tff.tensorflow.computation
        def first_round():
            return tf.constant(0)

        @tff.tensorflow.computation(np.int32)
        def round_seed(round_num):
            return fold_in(run_seed(self._seed, _PURPOSE), round_num), round_num + 1

        seed_type = round_seed.type_signature.result[0]

        @tff.tensorflow.computation(value_type, seed_type)
        def upload(value, seed):
            return self._decoded(value, fold_in(seed, client_digest(value))), tf.constant(
                1, tf.int64
            )

        @tff.tensorflow.computation(np.int64)
        def count_bytes(clients):
            return clients * sizes[0], clients * sizes[1]

        @tff.federated_computation
        def init_fn():
            return tff.federated_zip(
                collections.OrderedDict(
                    round=tff.federated_eval(first_round, tff.SERVER), inner=inner.initialize()
                )
            )

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            seed, next_round = tff.federated_map(round_seed, state["round"])
            decoded, one = tff.federated_map(upload, (value, tff.federated_broadcast(seed)))
            output = inner.next(state["inner"], decoded, weight)
            uploaded, uncompressed = tff.federated_map(count_bytes, tff.federated_sum(one))
            measurements = collections.OrderedDict(
                uploaded_bytes=uploaded,
                uncompressed_bytes=uncompressed,
                inner=output.measurements,
            )
            new_state = collections.OrderedDict(round=next_round, inner=output.state)
            return tff.templates.MeasuredProcessOutput(
                tff.federated_zip(new_state), output.result, tff.federated_zip(measurements)
            )

        return tff.templates.AggregationProcess(init_fn, next_fn)

    def _decoded(self, value: Any, seed: tf.Tensor) -> Any:
        flat = list(tf.nest.flatten(value))
        for i, tensor in enumerate(flat):
            if tensor.shape.num_elements() > self._threshold:
                uniform = tf.random.stateless_uniform(tensor.shape, fold_in(seed, i), alg="philox")
                flat[i] = quantize(tensor, self._bits, uniform)
        return tf.nest.pack_sequence_as(value, flat)


def tff_quantized_sum(*, bits: int, threshold: int) -> tff.aggregators.EncodedSumFactory:
    """TFF's uniform quantisation inside a sum, for `MeanFactory(value_sum_factory=...)`."""
    _check(bits, threshold)
    return tff.aggregators.EncodedSumFactory.quantize_above_threshold(
        quantization_bits=bits, threshold=threshold
    )


def _check(bits: int, threshold: int) -> None:
    if not 1 <= bits <= _MAX_BITS:
        raise ValueError(f"`bits` must be in 1..{_MAX_BITS}, got {bits}.")
    if threshold < 0:
        raise ValueError(f"`threshold` must be >= 0 elements, got {threshold}.")
