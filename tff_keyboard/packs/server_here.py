"""Rounds in packs whose server is this process: the state never goes to a worker.

What clients need of the state is prepared here and sent as one vector, what they come to is
returned as one, and the state is updated here. The parts are those of TFF's `MapReduceForm`; this
process runs their TensorFlow with the results, to the bit, that a worker has, on any number of
cores: a server that computes anything whose rounding depends on how a tensor is cut among threads
(a sum over all weights), or draws random numbers, stays in the worker.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# TensorFlow has no public way to the operations of a function in a graph.
from tensorflow.python.framework import function_def_to_graph

from tff_keyboard.packs import compiler
from tff_keyboard.packs.graph_piece import GraphPiece
from tff_keyboard.packs.state_vector import Joined, StateVector, leaf_types, leaves_of

# An element of the result is one correctly rounded operation on elements, or a copy, or a logical
# value: the same however a tensor is cut.
_ELEMENTWISE = frozenset([
    "Abs", "Add", "AddV2", "All", "Any", "BroadcastTo", "Cast", "ConcatV2", "Const", "DivNoNan",
    "Equal", "ExpandDims", "Fill", "Greater", "GreaterEqual", "Identity", "IdentityN", "IsFinite",
    "IsInf", "IsNan", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum",
    "Minimum", "Mul", "Neg", "NoOp", "NotEqual", "OnesLike", "Pack", "PartitionedCall",
    "Placeholder", "RealDiv", "Reshape", "Select", "SelectV2", "Shape", "Sign", "Split", "SplitV",
    "Sqrt", "Square", "SquaredDifference", "Squeeze", "StatelessIf", "StridedSlice", "Sub",
    "Unpack", "ZerosLike",
])  # fmt: skip
# These are not, but nobody cuts tensors of so few elements.
_OF_FEW = frozenset(["Exp", "Log", "Max", "Mean", "Min", "Pow", "Prod", "Sum"])
_FEW = 64


class ServerHereProcess(compiler.PackedProcess):
    """A `PackedProcess` whose server is this process where it may be, with the same results.

    Args and errors are those of `PackedProcess`.

    Attributes:
      is_server_here: Whether it is; else the whole round is in the worker.
    """

    def _compile(self, form: compiler.PackForm) -> None:
        parts = form.map_reduce
        pieces = [GraphPiece(part) for part in (parts.prepare, parts.update)]
        self.is_server_here = all(map(_is_elementwise, pieces))
        if not self.is_server_here:
            super()._compile(form)
            return
        self._prepare, self._update = (
            _here(piece, part.type_signature.parameter)
            for piece, part in zip(pieces, (parts.prepare, parts.update), strict=True)
        )
        self._inner_result = parts.update.type_signature.result
        self._sent = StateVector(parts.prepare.type_signature.result)
        self._returned = StateVector(parts.report.type_signature.result)
        self._total = compiler.on_vectors(form.total_of_context(), self._sent, self._returned)

    def next(self, state: Any, packs: Sequence[Any]) -> Any:
        """One round."""
        if not self.is_server_here:
            return super().next(state, packs)
        leaves = leaves_of(state)
        found = self._total(*self._sent.join_leaves(self._prepare(leaves)), packs)
        total = self._returned.cut(Joined(found["vector"], list(found["others"])))
        return self._as_python(iter(self._update([*leaves, *total])))  # there are no secure sums


def _is_elementwise(piece: GraphPiece) -> bool:
    """Whether this process computes the bits of a worker, see above."""
    graph = tf.Graph()
    with graph.as_default():  # functions call functions that they find in it
        piece({})
        functions = graph.as_graph_def().library.function
        graphs = [graph, *map(function_def_to_graph.function_def_to_graph, functions)]
    return all(_is_same_anywhere(node) for each in graphs for node in each.get_operations())


def _is_same_anywhere(operation: tf.Operation) -> bool:
    if operation.type in _OF_FEW:
        sizes = [tensor.shape.num_elements() for tensor in operation.inputs]
        return all(size is not None and size <= _FEW for size in sizes)
    return operation.type in _ELEMENTWISE


def _here(piece: GraphPiece, parameter: tff.Type) -> Callable[[Sequence[Any]], list[np.ndarray]]:
    """A piece as a function of leaves that this process runs."""
    types = leaf_types(parameter)
    # `tf.function` would leave behind the functions of an imported graph.
    run = tf.compat.v1.wrap_function(
        lambda *leaves: piece(dict(zip(piece.parameters, leaves, strict=True))),
        [tf.TensorSpec(leaf.shape, tf.as_dtype(leaf.dtype)) for leaf in types],
    )

    def call(leaves: Sequence[Any]) -> list[np.ndarray]:
        values = [np.asarray(v, t.dtype) for v, t in zip(leaves, types, strict=True)]
        return [found.numpy() for found in run(*map(tf.constant, values))]

    return call
