"""Exports the CIFG with TensorFlow's own converter: int8, float16 or float32.

The graph is written so that the converter stores the tied table once: one variable, read by
`gather` and by `matmul(..., transpose_b=True)`. Post-training dynamic-range quantisation then
gives one int8 buffer with one scale for each matrix.
"""

import copy
import tempfile

import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, PAD
from tflite_export import signatures
from tflite_export.cifg_weights import CifgWeights
from tflite_export.flatbuffer_builder import model_to_bytes

QUANTIZATIONS = ("int8", "float16", "none")


def convert(weights: CifgWeights, quantization: str, *, top_k: int) -> bytes:
    """Converts `predict`, `step` and `logits`.

    Args:
      weights: The trained weights.
      quantization: One of `QUANTIZATIONS`.
      top_k: Words that `predict` and `step` return.

    Returns:
      The bytes of the `.tflite` file, the same for the same arguments.
    """
    module = _Cifg(weights, top_k)
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(
            module,
            directory,
            signatures={name: getattr(module, name) for name in signatures.INFERENCE_SIGNATURES},
        )
        converter = tf.lite.TFLiteConverter.from_saved_model(
            directory, signature_keys=list(signatures.INFERENCE_SIGNATURES)
        )
        if quantization != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        converted = converter.convert()
    return model_to_bytes(stripped(read_model(converted)))


def read_model(data: bytes) -> schema.ModelT:
    """Unpacks a `.tflite` file into mutable objects."""
    return schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))


def stripped(model: schema.ModelT) -> schema.ModelT:
    """Without the names of tensors and the converter's own metadata: several KB, no meaning.

    Signatures keep their names, and `min_runtime_version` stays. What is left depends on the
    weights alone, so that exporting twice gives the same bytes.
    """
    model = copy.deepcopy(model)
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            tensor.name = None
    kept = [entry for entry in model.metadata or [] if _name(entry) == "min_runtime_version"]
    dropped = {entry.buffer for entry in model.metadata or []} - {entry.buffer for entry in kept}
    for index in dropped:
        model.buffers[index] = schema.BufferT()  # indices of the others must not move
    model.metadata = kept
    model.description = b"next-word keyboard model"
    return model


def _name(entry: schema.MetadataT) -> str:
    return entry.name.decode() if isinstance(entry.name, bytes) else entry.name


class _Cifg(tf.Module):
    """The signatures as TensorFlow functions; `tflite_export.signatures` says what they do."""

    def __init__(self, weights: CifgWeights, top_k: int):
        super().__init__()
        self._vocabulary, self._dim, self._units = (
            weights.vocabulary_size,
            weights.dim,
            weights.units,
        )
        self._top_k = top_k
        self._embedding = tf.Variable(weights.embedding)
        self._kernels = [tf.Variable(matrix) for matrix in weights.kernels]
        self._recurrent_kernels = [tf.Variable(matrix) for matrix in weights.recurrent_kernels]
        self._biases = [tf.Variable(vector) for vector in weights.biases]
        self._projection = tf.Variable(weights.projection)
        state = [
            tf.TensorSpec([1, self._units], tf.float32, "c"),
            tf.TensorSpec([1, self._dim], tf.float32, "h"),
        ]
        self.predict = tf.function(
            self._predict, input_signature=[tf.TensorSpec([1, None], tf.int32, "tokens")]
        )
        self.step = tf.function(
            self._step, input_signature=[tf.TensorSpec([1], tf.int32, "token"), *state]
        )
        self.logits = tf.function(self._logits, input_signature=state[1:])

    def _predict(self, tokens):
        state = (tf.zeros([1, self._units]), tf.zeros([1, self._dim]))

        def read_next(position, c, h):
            # The reshape fails with a batch other than 1; a squeeze would be converted to one that
            # does not.
            token = tf.reshape(tf.gather(tokens, [position], axis=1), [1])
            return position + 1, *self._read_token(token, c, h)

        _, c, h = tf.while_loop(
            lambda position, *_: position < tf.shape(tokens)[1],
            read_next,
            (tf.constant(0), *state),
        )
        return self._outputs(c, h)

    def _step(self, token, c, h):
        return self._outputs(*self._read_token(token, c, h))

    def _logits(self, h):
        return {"logits": self._all_logits(h)}

    def _outputs(self, c, h):
        probabilities = tf.nn.softmax(self._all_logits(h))
        values, rows = tf.math.top_k(probabilities[:, NUM_SPECIAL:], self._top_k)
        return {"ids": rows + NUM_SPECIAL, "probabilities": values, "new_c": c, "new_h": h}

    def _all_logits(self, h):
        return tf.matmul(h, self._embedding, transpose_b=True)

    def _read_token(self, token, c, h):
        """The state after `token` [1]; after PAD, the state before."""
        known = tf.logical_and(token >= 0, token < self._vocabulary)
        token = tf.where(known, token, OOV)
        x = tf.gather(self._embedding, token)
        z_i, z_g, z_o = (
            tf.matmul(x, kernel) + bias + tf.matmul(h, recurrent_kernel)
            for kernel, recurrent_kernel, bias in zip(
                self._kernels, self._recurrent_kernels, self._biases, strict=True
            )
        )
        stepped_c = c + tf.sigmoid(z_i) * (tf.tanh(z_g) - c)
        stepped_h = tf.matmul(tf.sigmoid(z_o) * tf.tanh(stepped_c), self._projection)
        is_word = tf.not_equal(token, PAD)[:, tf.newaxis]
        return tf.where(is_word, stepped_c, c), tf.where(is_word, stepped_h, h)
