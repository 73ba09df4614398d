"""Builds the CIFG by hand, with an int8 table that has one scale a row.

The table is stored once and read twice: GATHER takes a row, and FULLY_CONNECTED multiplies by all
rows. The codes of the rows, one byte each, multiply the looked-up row and the logits. Gates and
projection are int8 with one scale a matrix.
"""

from collections.abc import Mapping

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, PAD
from tflite_export.format import signatures
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.flatbuffer_builder import ModelBuilder, SubgraphBuilder, Type
from tflite_export.graphs.quantization import RowQuantized, quantize_tensor

MIN_RUNTIME_VERSION = b"2.14.0".ljust(16, b"\0")  # the oldest runtime this was tested with


def build(weights: CifgWeights, table: RowQuantized, *, top_k: int) -> bytes:
    """Returns the bytes of a `.tflite` file with `predict`, `step` and `logits`.

    `table` is `weights.embedding`, quantised. The float table of `weights` is not used.
    """
    builder = ModelBuilder()
    builder.model.description = signatures.DESCRIPTION
    graph = _Cifg(weights, table, top_k)
    _build_step(builder, graph)
    _build_predict(builder, graph)
    _build_logits(builder, graph)
    builder.metadata("min_runtime_version", MIN_RUNTIME_VERSION)
    return builder.to_bytes()


class _Cifg:
    """Emits the parts of the model into any subgraph. Subgraphs share constants."""

    def __init__(self, weights: CifgWeights, table: RowQuantized, top_k: int):
        self.vocabulary, self.dim, self.units = weights.vocabulary_size, weights.dim, weights.units
        self.top_k = top_k
        self._table = table
        # FULLY_CONNECTED wants [outputs, inputs].
        self._kernels = [quantize_tensor(matrix.T) for matrix in weights.kernels]
        self._recurrent = [quantize_tensor(matrix.T) for matrix in weights.recurrent_kernels]
        self._biases = weights.biases
        self._projection = quantize_tensor(weights.projection.T)

    def known_id(self, graph: SubgraphBuilder, token: int) -> int:
        """Returns `token` [1], or OOV if it is not a row of the table."""
        constant = graph.both(
            graph.at_least(token, graph.integers(0)),
            graph.less(token, graph.integers(self.vocabulary)),
        )
        return graph.select(constant, token, graph.integers(OOV), [1], Type.INT32)

    def read_token(self, graph: SubgraphBuilder, token: int, c: int, h: int) -> tuple[int, int]:
        """Returns the state after `token` [1]. PAD leaves the state unchanged."""
        token = self.known_id(graph, token)
        stepped_c, stepped_h = self._cell(graph, self._embed(graph, token), c, h)
        is_word = graph.not_equal(token, graph.integers(PAD))
        return (
            graph.select(is_word, stepped_c, c, [1, self.units]),
            graph.select(is_word, stepped_h, h, [1, self.dim]),
        )

    def logits(self, graph: SubgraphBuilder, h: int) -> int:
        """Returns the logits [1, vocabulary]."""
        table = graph.constant(self._table.values, 1.0)
        unscaled = graph.fully_connected(h, table, None, self.vocabulary)
        codes = graph.constant(self._table.codes[np.newaxis], self._table.base)
        scales = graph.dequantize(codes, [1, self.vocabulary])
        return graph.multiply(unscaled, scales, [1, self.vocabulary])

    def best_words(self, graph: SubgraphBuilder, h: int) -> tuple[int, int]:
        """Returns `(ids, probabilities)` of the `top_k` best words."""
        words = self.vocabulary - NUM_SPECIAL
        probabilities = graph.softmax(self.logits(graph, h), [1, self.vocabulary])
        of_words = graph.slice(probabilities, [0, NUM_SPECIAL], [1, words])
        values, rows = graph.top_k(of_words, self.top_k)
        ids = graph.add(rows, graph.integers(NUM_SPECIAL), [1, self.top_k], Type.INT32)
        return ids, values

    def _embed(self, graph: SubgraphBuilder, token: int) -> int:
        """Adds the lookup of a word's row, scaled to float32. Returns [1, dim]."""
        row = graph.lookup(token, graph.constant(self._table.values, 1.0), self.dim)
        codes = graph.constant(self._table.codes[:, np.newaxis], self._table.base)
        return graph.multiply(row, graph.lookup(token, codes, 1), [1, self.dim])

    def _cell(self, graph: SubgraphBuilder, x: int, c: int, h: int) -> tuple[int, int]:
        """Runs one step: c' = c + i (g - c), h' = (o tanh(c')) P."""
        shape = [1, self.units]
        z_i, z_g, z_o = (
            graph.add(
                graph.fully_connected(
                    x, graph.constant(kernel.values, kernel.scale), graph.constant(bias), self.units
                ),
                graph.fully_connected(
                    h, graph.constant(recurrent.values, recurrent.scale), None, self.units
                ),
                shape,
            )
            for kernel, recurrent, bias in zip(
                self._kernels, self._recurrent, self._biases, strict=True
            )
        )
        i, g, o = graph.sigmoid(z_i, shape), graph.tanh(z_g, shape), graph.sigmoid(z_o, shape)
        new_c = graph.add(c, graph.multiply(i, graph.subtract(g, c, shape), shape), shape)
        unprojected = graph.multiply(o, graph.tanh(new_c, shape), shape)
        projection = graph.constant(self._projection.values, self._projection.scale)
        return new_c, graph.fully_connected(unprojected, projection, None, self.dim)


def _outputs(cifg: _Cifg, graph: SubgraphBuilder, c: int, h: int) -> Mapping[str, int]:
    ids, probabilities = cifg.best_words(graph, h)
    return {"ids": ids, "probabilities": probabilities, "new_c": c, "new_h": h}


def _build_step(builder: ModelBuilder, cifg: _Cifg) -> None:
    graph = builder.subgraph(signatures.STEP)
    token = graph.tensor([1], Type.INT32)
    c, h = graph.tensor([1, cifg.units]), graph.tensor([1, cifg.dim])
    new_c, new_h = cifg.read_token(graph, token, c, h)
    inputs = {"token": token, "c": c, "h": h}
    builder.signature(signatures.STEP, graph, inputs, _outputs(cifg, graph, new_c, new_h))


def _build_logits(builder: ModelBuilder, cifg: _Cifg) -> None:
    graph = builder.subgraph(signatures.LOGITS)
    h = graph.tensor([1, cifg.dim])
    builder.signature(signatures.LOGITS, graph, {"h": h}, {"logits": cifg.logits(graph, h)})


def _build_predict(builder: ModelBuilder, cifg: _Cifg) -> None:
    """Builds `for token in tokens: state = read_token(token, state)`."""
    graph = builder.subgraph(signatures.PREDICT)
    tokens = graph.tensor([1, 1], Type.INT32, shape_signature=[1, -1])
    start = [
        graph.integers([0]),
        graph.drop_batch(tokens),
        graph.zeros([1, cifg.units]),
        graph.zeros([1, cifg.dim]),
    ]
    # A WHILE operator refers to its subgraphs by number, so they are built first.
    condition = builder.subgraph("more_tokens")
    position, ids, c, h = _loop_variables(condition, cifg)
    condition.set_inputs_and_outputs(
        [position, ids, c, h], [condition.less(position, condition.size_of(ids))]
    )
    body = builder.subgraph("read_token")
    position, ids, c, h = _loop_variables(body, cifg)
    new_c, new_h = cifg.read_token(body, body.gather_integer(ids, position), c, h)
    next_position = body.add(position, body.integers([1]), [1], Type.INT32)
    body.set_inputs_and_outputs([position, ids, c, h], [next_position, ids, new_c, new_h])

    _, _, last_c, last_h = graph.while_loop(start, condition.index, body.index)
    outputs = _outputs(cifg, graph, last_c, last_h)
    builder.signature(signatures.PREDICT, graph, {"tokens": tokens}, outputs)


def _loop_variables(graph: SubgraphBuilder, cifg: _Cifg) -> tuple[int, int, int, int]:
    """Adds the loop variables `(position [1], tokens [time], c, h)`."""
    return (
        graph.tensor([1], Type.INT32),
        graph.tensor([1], Type.INT32, shape_signature=[-1]),
        graph.tensor([1, cifg.units]),
        graph.tensor([1, cifg.dim]),
    )
