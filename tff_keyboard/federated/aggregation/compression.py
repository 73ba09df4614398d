"""Smaller uploads: quantisation on the client, under any aggregation.

Each large tensor x is sent as `bits` bits a coordinate and its minimum and maximum:

    q = floor((x - min) / (max - min) * (2^bits - 1) + u),   u uniform in [0, 1)

so that the decoded value is right on average (Suresh et al. 2017,
section 2.2, http://proceedings.mlr.press/v70/suresh17a.html). u is a pure function of (seed, round,
delta), see `seeded_client_map.py`: a resumed run repeats the bits. The server decodes before it
aggregates, hence FedAtt's norms, FedMed's topK, clipping and noise all see what really arrived.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config.sections.aggregation_config import UniformQuantization
from tff_keyboard.federated.aggregation.layers import require_float_tensors
from tff_keyboard.federated.aggregation.processes import AggregationProcess, Factory
from tff_keyboard.federated.aggregation.seeded_client_map import SeededClientMapFactory
from tff_keyboard.federated.aggregation.seeded_noise import fold_in
from tff_keyboard.federated.aggregation.upload_size import UploadSizeFactory

_PURPOSE = 3


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
      codec: Config, which the next two arguments change where they are not None. None: 8 bits,
        tensors of up to 1,000 elements whole.
      bits: Bits a coordinate, 1..16.
      threshold: Elements up to which a tensor is sent whole, >= 0.
      seed: Seed of the run, >= 0: rounding is a function of it, the round and the delta.

    Raises:
      ValueError: An argument is out of range.
    """

    def __init__(
        self,
        inner: Factory,
        codec: UniformQuantization | None = None,
        *,
        bits: int | None = None,
        threshold: int | None = None,
        seed: int = 0,
    ):
        codec = (codec or UniformQuantization()).changed(bits=bits, threshold=threshold)
        self._codec = codec
        mapped = SeededClientMapFactory(inner, self._decoded, seed=seed, purpose=_PURPOSE)
        self._counted = UploadSizeFactory(mapped, bits=codec.bits, threshold=codec.threshold)

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """The process, for these types."""
        require_float_tensors(value_type, "Compression")
        return self._counted.create(value_type, weight_type)

    def _decoded(self, value: Any, seed: tf.Tensor) -> Any:
        flat = list(tf.nest.flatten(value))
        for i, tensor in enumerate(flat):
            if tensor.shape.num_elements() > self._codec.threshold:
                uniform = tf.random.stateless_uniform(tensor.shape, fold_in(seed, i), alg="philox")
                flat[i] = quantize(tensor, self._codec.bits, uniform)
        return tf.nest.pack_sequence_as(value, flat)
