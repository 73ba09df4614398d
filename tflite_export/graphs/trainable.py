"""Builds a model file that can be trained on the phone, with built-in operators only.

It has these signatures in addition to `predict`, `step` and `logits` of every export:

    train(tokens int32 [1, 1 + time], learning_rate [])  -> loss []
    weights()                                            -> the five arrays of the CIFG
    set_weights(the five arrays)                         -> done []

`train` takes BOS, words and EOS, optionally padded with PAD on the right. It makes one step of
plain SGD on the mean loss of the targets, as a client does in federated training. `weights` and
`set_weights` use the layout of `tff_keyboard.models.cifg` (with the rows of `embedding` in the
file's order), so that the phone can send a delta and receive an update.

Weights are float32 variables in memory. The file holds their initial values as int8 with one scale
a row, which its initialisation subgraph dequantises. Back-propagation through time is written by
hand, as a loop over the values that the forward loop saved: automatic differentiation of a loop
needs operators that TFLite lacks.
"""

import copy
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from tff_keyboard.data.vocabulary import PAD
from tflite_export.format import signatures
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.converter import CifgFunctions, convert_module, stripped
from tflite_export.graphs.flatbuffer_builder import ModelBuilder, Op, Type, model_to_bytes
from tflite_export.graphs.quantization import quantize_rows

WEIGHT_NAMES = signatures.WEIGHT_NAMES

_SMALL = 256  # elements; a smaller matrix stays float32


def build(weights: CifgWeights, *, top_k: int) -> bytes:
    """Returns the bytes of a `.tflite` file with the inference and the training signatures."""
    names = (*signatures.INFERENCE_SIGNATURES, *signatures.TRAINING_SIGNATURES)
    module = _TrainableCifg(weights, top_k)
    model = convert_module(module, names, "none", keep_variables=True)
    return model_to_bytes(_with_int8_initial_values(stripped(model)))


def joined_weights(weights: CifgWeights) -> dict[str, np.ndarray]:
    """Returns the five arrays of `tff_keyboard.models.cifg`, with the gates in one matrix."""
    return {
        "embedding": weights.embedding,
        "kernel": np.concatenate(weights.kernels, axis=1),
        "recurrent_kernel": np.concatenate(weights.recurrent_kernels, axis=1),
        "bias": np.concatenate(weights.biases),
        "projection": weights.projection,
    }


class _TrainableCifg(CifgFunctions):
    """The CIFG with variables, and with signatures that train, read and set them."""

    def __init__(self, weights: CifgWeights, top_k: int):
        super().__init__(weights, top_k)
        values = joined_weights(weights)
        self.embedding = tf.Variable(values["embedding"])
        self.kernel = tf.Variable(values["kernel"])
        self.recurrent_kernel = tf.Variable(values["recurrent_kernel"])
        self.bias = tf.Variable(values["bias"])
        self.projection = tf.Variable(values["projection"])
        self._all = {name: getattr(self, name) for name in WEIGHT_NAMES}
        self.train = tf.function(
            self._train,
            input_signature=[
                tf.TensorSpec([1, None], tf.int32, "tokens"),
                tf.TensorSpec([], tf.float32, "learning_rate"),
            ],
        )
        self.weights = tf.function(self._weights, input_signature=[])
        self.set_weights = tf.function(
            self._set_weights,
            input_signature=[
                tf.TensorSpec(variable.shape, tf.float32, name)
                for name, variable in self._all.items()
            ],
        )

    def pre_activations(self, x, h):
        z = tf.matmul(x, self.kernel) + tf.matmul(h, self.recurrent_kernel) + self.bias
        return tf.split(z, 3, axis=1)

    def _train(self, tokens, learning_rate):
        """Makes one step of SGD on a message of tokens [1, time]. Returns the loss before it."""
        # The reshape fails if the batch size is not 1.
        message = self.known_ids(tf.reshape(tokens, [tf.shape(tokens)[1]]))
        # Adds a target, because TFLite leaves an empty matrix product uninitialised, not zero.
        message = tf.concat([message, [PAD]], axis=0)
        weights = {name: variable.read_value() for name, variable in self._all.items()}
        loss, gradients = loss_and_gradients(weights, message)
        for name, variable in self._all.items():
            variable.assign_sub(learning_rate * gradients[name])
        return {"loss": loss}

    def _weights(self):
        return {name: variable.read_value() for name, variable in self._all.items()}

    def _set_weights(self, *values):
        for variable, value in zip(self._all.values(), values, strict=True):
            variable.assign(value)
        return {"done": tf.constant(True)}


def loss_and_gradients(
    weights: Mapping[str, tf.Tensor], message: tf.Tensor
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Computes the mean of -log p(target) over the targets of a message, and its gradients.

    Args:
      weights: The five arrays, by name.
      message: [1 + time] int32: BOS, words, EOS, then PAD if any. PAD is not a target.

    Returns:
      `(loss [], gradients)`, with gradients in the shapes of `weights`. All are zero if the message
      has no target.
    """
    table, kernel = weights["embedding"], weights["kernel"]
    recurrent_kernel, projection = weights["recurrent_kernel"], weights["projection"]
    ids, targets = message[:-1], message[1:]
    inputs = tf.gather(table, ids)  # [time, dim]
    pre = tf.matmul(inputs, kernel) + weights["bias"]
    gates, cells, hidden = _run_forth(pre, recurrent_kernel, projection)

    log_probabilities = tf.nn.log_softmax(tf.matmul(hidden, table, transpose_b=True))
    is_target = tf.one_hot(targets, table.shape[0])  # [time, vocabulary]
    counts = tf.cast(tf.not_equal(targets, PAD), tf.float32)[:, tf.newaxis]
    counts /= tf.maximum(tf.reduce_sum(counts), 1.0)
    loss = -tf.reduce_sum(log_probabilities * is_target * counts)

    d_logits = (tf.exp(log_probabilities) - is_target) * counts
    d_hidden = tf.matmul(d_logits, table)
    d_pre, d_recurrent_kernel, d_projection = _run_back(
        d_hidden, gates, cells, hidden, recurrent_kernel, projection
    )
    d_inputs = tf.matmul(d_pre, kernel, transpose_b=True)
    return loss, {
        # The table is read twice: as the output layer, and by lookup.
        "embedding": tf.matmul(d_logits, hidden, transpose_a=True)
        + tf.math.unsorted_segment_sum(d_inputs, ids, table.shape[0]),
        "kernel": tf.matmul(inputs, d_pre, transpose_a=True),
        "recurrent_kernel": d_recurrent_kernel,
        "bias": tf.reduce_sum(d_pre, axis=0),
        "projection": d_projection,
    }


def _run_forth(pre, recurrent_kernel, projection):
    """Runs the CIFG over time, from a zero state.

    Args:
      pre: [time, 3 units], x_t W + b with gates in the order i, g, o.
      recurrent_kernel: R, [dim, 3 units].
      projection: P, [units, dim], where dim <= 3 units.

    Returns:
      `(i, g, o [time, 3 units], c [time, units], h [time, dim])`.
    """
    units, dim = projection.shape

    def step(t, c, h, gates, cells, hidden):
        """Computes step t: gates [time, 3 units], cells [time, units] and hidden [time, dim]."""
        z = tf.gather(pre, [t]) + tf.matmul(h, recurrent_kernel)
        z_i, z_g, z_o = tf.split(z, 3, axis=1)
        i, g, o = tf.sigmoid(z_i), tf.tanh(z_g), tf.sigmoid(z_o)
        c = c + i * (g - c)
        h = tf.matmul(o * tf.tanh(c), projection)
        gates = _with_row(gates, t, tf.concat([i, g, o], axis=1))
        return t + 1, c, h, gates, _with_row(cells, t, c), _with_row(hidden, t, h)

    # Every row is written before it is read, so the initial arrays only need the right shape.
    *_, gates, cells, hidden = tf.while_loop(
        lambda t, *_: t < tf.shape(pre)[0],
        step,
        (
            tf.constant(0),
            tf.zeros([1, units]),
            tf.zeros([1, dim]),
            pre,
            pre[:, :units],
            pre[:, :dim],
        ),
    )
    return gates, cells, hidden


def _run_back(d_hidden, gates, cells, hidden, recurrent_kernel, projection):
    """Computes the gradients of `pre`, R and P.

    They follow from the gradient of h, [time, dim], and the values that `_run_forth` returned.
    """
    units, dim = projection.shape
    zero_c, zero_h = tf.zeros([1, units]), tf.zeros([1, dim])
    cells_before = tf.concat([zero_c, cells], axis=0)[:-1]
    hidden_before = tf.concat([zero_h, hidden], axis=0)[:-1]
    i, g, o = tf.split(gates, 3, axis=1)
    tanh_c = tf.tanh(cells)
    # Factors that need no loop. m = o tanh(c) is the input of the projection: h = m P.
    m_to_c = o * (1.0 - tanh_c * tanh_c)
    to_pre = tf.concat(
        [(g - cells_before) * i * (1.0 - i), i * (1.0 - g * g), tanh_c * o * (1.0 - o)], axis=1
    )

    def step(t, d_c, d_h, d_pres, d_hs):
        """Computes the gradients of step t. Writes those of the pre-activations and of h."""
        d_h = d_h + tf.gather(d_hidden, [t])
        d_m = tf.matmul(d_h, projection, transpose_b=True)
        d_c = d_c + d_m * tf.gather(m_to_c, [t])
        d_pre = tf.concat([d_c, d_c, d_m], axis=1) * tf.gather(to_pre, [t])
        d_pres, d_hs = _with_row(d_pres, t, d_pre), _with_row(d_hs, t, d_h)
        d_h = tf.matmul(d_pre, recurrent_kernel, transpose_b=True)
        return t - 1, d_c * (1.0 - tf.gather(i, [t])), d_h, d_pres, d_hs

    *_, d_pre, d_h = tf.while_loop(
        lambda t, *_: t >= 0, step, (tf.shape(gates)[0] - 1, zero_c, zero_h, gates, hidden)
    )
    return (
        d_pre,
        tf.matmul(hidden_before, d_pre, transpose_a=True),
        tf.matmul(o * tanh_c, d_h, transpose_a=True),
    )


def _with_row(array, t, row):
    """Replaces row t of [time, n] by [1, n]. TFLite has no scatter into a tensor."""
    is_t = tf.equal(tf.range(tf.shape(array)[0]), t)
    return tf.where(is_t[:, tf.newaxis], row, array)


def _with_int8_initial_values(model: schema.ModelT) -> schema.ModelT:
    """Stores the initial values of variables as int8, with one scale a row.

    The converter wrote `ASSIGN_VARIABLE(handle, float constant)`. This function replaces the
    constant by `MUL(DEQUANTIZE(values), DEQUANTIZE(codes))`.
    """
    model = copy.deepcopy(model)
    builder = ModelBuilder(model)
    for index, graph in enumerate(model.subgraphs):
        editor = builder.edit(index)
        nodes, graph.operators = graph.operators, []
        for node in nodes:
            matrix = _assigned_matrix(model, graph, node)
            if matrix is not None:
                model.buffers[graph.tensors[node.inputs[1]].buffer] = schema.BufferT()
                quantized = quantize_rows(matrix)
                values = editor.constant(quantized.values, 1.0)
                codes = editor.constant(quantized.codes[:, np.newaxis], quantized.base)
                node.inputs[1] = editor.multiply(
                    editor.dequantize(values, matrix.shape),
                    editor.dequantize(codes, [len(matrix), 1]),
                    matrix.shape,
                )
            graph.operators.append(node)
    return model


def _assigned_matrix(
    model: schema.ModelT, graph: schema.SubGraphT, node: schema.OperatorT
) -> np.ndarray | None:
    """Returns the large float constant that `node` assigns to a variable, or None."""
    code = model.operatorCodes[node.opcodeIndex].builtinCode
    if code != Op.ASSIGN_VARIABLE:
        return None
    tensor = graph.tensors[node.inputs[1]]
    data = model.buffers[tensor.buffer].data
    if tensor.type != Type.FLOAT32 or data is None:
        return None
    value = np.frombuffer(bytes(data), np.float32).reshape(tensor.shape)
    return value if value.ndim == 2 and value.size >= _SMALL else None
