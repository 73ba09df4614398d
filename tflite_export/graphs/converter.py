"""Exports the CIFG with TensorFlow's own converter: int8 or float32.

The graph is written so that the converter stores the tied table once: one variable, read by
`gather` and by `matmul(..., transpose_b=True)`. Post-training dynamic-range quantisation then
gives one int8 buffer with one scale for each matrix.
"""

import copy
import re
import tempfile
from collections.abc import Sequence

import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.python.convert_phase import ConverterError

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, PAD
from tff_keyboard.storage.errors import ExportError, in_one_line
from tflite_export.format import signatures
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.flatbuffer_builder import model_to_bytes, name_signature_tensors

QUANTIZATIONS = ("int8", "none")


def convert(weights: CifgWeights, quantization: str, *, top_k: int) -> bytes:
    """Returns the bytes of a `.tflite` file with `predict`, `step` and `logits`."""
    module = _Cifg(weights, top_k)
    model = convert_module(module, signatures.INFERENCE_SIGNATURES, quantization)
    return model_to_bytes(stripped(model))


def convert_module(
    module: tf.Module, names: Sequence[str], quantization: str, *, keep_variables: bool = False
) -> schema.ModelT:
    """Runs the converter, with one of `QUANTIZATIONS`.

    Variables become constants unless `keep_variables` is true, which training needs.

    Raises:
      ExportError: If there is no room for the converter's temporary files, or the graph has
        operators that are not built into TFLite.
    """
    with tempfile.TemporaryDirectory() as directory:
        try:
            tf.saved_model.save(
                module, directory, signatures={name: getattr(module, name) for name in names}
            )
        except tf.errors.OpError as error:
            raise ExportError(
                f"{tempfile.gettempdir()}: the converter cannot write its temporary files there "
                f"({type(error).__name__}). Free some space, or set TMPDIR."
            ) from None
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=list(names))
        converter.experimental_enable_resource_variables = keep_variables
        if quantization != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            return read_model(converter.convert())
        except ConverterError as error:
            raise ExportError(_refusal(error)) from None


def _refusal(error: ConverterError) -> str:
    """Returns the converter's reason in one line."""
    # "tf.Igamma {device = ""}" in a list of operators, or "error: 'tf.Igamma' op is neither ..."
    names = re.findall(r"(?:^\s*|')tf\.(\w+)", str(error), re.MULTILINE)
    if names:
        return (
            "The model has operators that are not built into TFLite: "
            f"{', '.join(sorted(set(names)))}. Use other operators in its `call` or `step`."
        )
    return f"The TFLite converter cannot convert the model ({in_one_line(error)})."


def read_model(data: bytes) -> schema.ModelT:
    """Unpacks a `.tflite` file into mutable objects."""
    return schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))


def stripped(model: schema.ModelT) -> schema.ModelT:
    """Returns a copy without names of inner tensors, converter metadata, and duplicate buffers.

    This removes several KB that have no meaning: signatures keep their names, and
    `min_runtime_version` stays. The result depends on the weights alone, so that exporting twice
    gives the same bytes.
    """
    model = copy.deepcopy(model)
    entries = [entry for entry in model.metadata or [] if _name(entry) == "min_runtime_version"]
    for index in {entry.buffer for entry in model.metadata or []} - {e.buffer for e in entries}:
        model.buffers[index] = schema.BufferT()  # indices of the others must not move
    model.metadata = entries
    model.description = signatures.DESCRIPTION
    replaced_by = _first_with_same_data(model)
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            tensor.name = None
            tensor.buffer = replaced_by.get(tensor.buffer, tensor.buffer)
    for index in replaced_by:
        model.buffers[index] = schema.BufferT()
    name_signature_tensors(model)
    return model


def _first_with_same_data(model: schema.ModelT) -> dict[int, int]:
    """Maps each duplicate buffer to the first buffer with the same bytes, by index."""
    first: dict[bytes, int] = {}
    repeats = {}
    for index, buffer in enumerate(model.buffers):
        if buffer.data is not None and len(buffer.data):
            first_index = first.setdefault(bytes(buffer.data), index)
            if first_index != index:
                repeats[index] = first_index
    return repeats


def _name(entry: schema.MetadataT) -> str:
    return entry.name.decode() if isinstance(entry.name, bytes) else entry.name


class CifgFunctions(tf.Module):
    """The signatures as TensorFlow functions; `tflite_export.format.signatures` describes them.

    Subclasses hold the weights: `embedding`, `projection`, and the weights that `pre_activations`
    uses.
    """

    embedding: tf.Variable
    projection: tf.Variable

    def __init__(self, weights: CifgWeights, top_k: int):
        super().__init__()
        self.vocabulary_size, self.dim = weights.vocabulary_size, weights.dim
        self.units = weights.units
        self._top_k = top_k
        state = [
            tf.TensorSpec([1, self.units], tf.float32, "c"),
            tf.TensorSpec([1, self.dim], tf.float32, "h"),
        ]
        self.predict = tf.function(
            self._predict, input_signature=[tf.TensorSpec([1, None], tf.int32, "tokens")]
        )
        self.step = tf.function(
            self._step, input_signature=[tf.TensorSpec([1], tf.int32, "token"), *state]
        )
        self.logits = tf.function(self._logits, input_signature=state[1:])

    def pre_activations(self, x, h):
        """Returns z_i, z_g, z_o, each [batch, units], from x [batch, dim] and h [batch, dim]."""
        raise NotImplementedError

    def cell(self, x, c, h):
        """Runs one step and returns the new `(c, h)`."""
        z_i, z_g, z_o = self.pre_activations(x, h)
        c = c + tf.sigmoid(z_i) * (tf.tanh(z_g) - c)
        return c, tf.matmul(tf.sigmoid(z_o) * tf.tanh(c), self.projection)

    def zero_state(self):
        return tf.zeros([1, self.units]), tf.zeros([1, self.dim])

    def all_logits(self, h):
        return tf.matmul(h, self.embedding, transpose_b=True)

    def known_ids(self, ids):
        """Replaces ids that are not rows of the table by OOV."""
        return tf.where(tf.logical_and(ids >= 0, ids < self.vocabulary_size), ids, OOV)

    def _predict(self, tokens):
        """Reads all tokens [1, time] from the zero state. Returns the last outputs."""

        def read_next(position, c, h):
            # The reshape fails if the batch size is not 1. A squeeze would be converted to an
            # operator that does not fail.
            token = tf.reshape(tf.gather(tokens, [position], axis=1), [1])
            return position + 1, *self._read_token(token, c, h)

        _, c, h = tf.while_loop(
            lambda position, *_: position < tf.shape(tokens)[1],
            read_next,
            (tf.constant(0), *self.zero_state()),
        )
        return self._outputs(c, h)

    def _step(self, token, c, h):
        return self._outputs(*self._read_token(token, c, h))

    def _logits(self, h):
        return {"logits": self.all_logits(h)}

    def _outputs(self, c, h):
        """Returns the best words, their probabilities, and the state, given a state."""
        probabilities = tf.nn.softmax(self.all_logits(h))
        values, rows = tf.math.top_k(probabilities[:, NUM_SPECIAL:], self._top_k)
        return {"ids": rows + NUM_SPECIAL, "probabilities": values, "new_c": c, "new_h": h}

    def _read_token(self, token, c, h):
        """Returns the state after `token` [1]. PAD leaves the state unchanged."""
        token = self.known_ids(token)
        stepped_c, stepped_h = self.cell(tf.gather(self.embedding, token), c, h)
        is_word = tf.not_equal(token, PAD)[:, tf.newaxis]
        return tf.where(is_word, stepped_c, c), tf.where(is_word, stepped_h, h)


class _Cifg(CifgFunctions):
    """The CIFG with six gate matrices, so that the quantiser gives each its own scale."""

    def __init__(self, weights: CifgWeights, top_k: int):
        super().__init__(weights, top_k)
        self.embedding = tf.Variable(weights.embedding)
        self.projection = tf.Variable(weights.projection)
        self._kernels = [tf.Variable(matrix) for matrix in weights.kernels]
        self._recurrent_kernels = [tf.Variable(matrix) for matrix in weights.recurrent_kernels]
        self._biases = [tf.Variable(vector) for vector in weights.biases]

    def pre_activations(self, x, h):
        return [
            tf.matmul(x, kernel) + bias + tf.matmul(h, recurrent_kernel)
            for kernel, recurrent_kernel, bias in zip(
                self._kernels, self._recurrent_kernels, self._biases, strict=True
            )
        ]
