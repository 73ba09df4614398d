"""A TensorFlow graph as a function of arrays, which runs in this process on the caller's thread.

A call is one run of a TensorFlow session. A session has its own variables, so a function keeps one
session for each concurrent call, and threads never wait for each other. Every operation runs on the
calling thread: results do not depend on the number of cores, and several concurrent calls use the
cores of a machine.
"""

import functools
import hashlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.execution.graph_piece import GraphPiece


def leaf_types(type_spec: tff.Type | None) -> list[tff.TensorType]:
    """Returns the types of all leaves of a type, in its order.

    >>> [str(leaf) for leaf in leaf_types(tff.to_type([("b", np.int32), ("a", [np.float32])]))]
    ['int32', 'float32']
    """
    if type_spec is None:
        return []
    if isinstance(type_spec, tff.StructType):
        return [
            leaf for _, part in tff.structure.iter_elements(type_spec) for leaf in leaf_types(part)
        ]
    return [type_spec]


def leaves_of(value: Any, type_spec: tff.Type) -> list[Any]:
    """Returns the leaves of a value of a type, in the order of the type.

    >>> leaves_of({"b": [1, 2], "a": 3}, tff.to_type([("b", (np.int32, [2])), ("a", np.int32)]))
    [[1, 2], 3]
    """
    if not isinstance(type_spec, tff.StructType):
        return [value]
    names = [name for name, _ in tff.structure.iter_elements(type_spec)]
    if isinstance(value, Mapping) and None not in names:
        parts = [value[name] for name in names]
    else:
        parts = [
            part for _, part in tff.structure.iter_elements(tff.structure.from_container(value))
        ]
    pairs = zip(parts, tff.structure.iter_elements(type_spec), strict=True)
    return [leaf for part, (_, part_type) in pairs for leaf in leaves_of(part, part_type)]


def pack_as(type_spec: tff.Type, leaves: Iterator[Any]) -> Any:
    """Builds the `tff.structure.Struct` of a type from the values of its leaves."""
    if isinstance(type_spec, tff.StructType):
        return tff.structure.Struct(
            [(name, pack_as(part, leaves)) for name, part in tff.structure.iter_elements(type_spec)]
        )
    return next(leaves)


class _Running(NamedTuple):
    """A session of TensorFlow, and the function that runs the graph in it."""

    session: tf.compat.v1.Session
    call: Callable[..., list[Any]]


class GraphFunction:
    """A graph that is called with arrays. It can be called from any number of threads and pickled.

    Args:
      graph_def: A serialised `GraphDef`.
      parameters: Names of the tensors to feed, in order.
      results: Names of the tensors to return, in order; none of them is fed.
    """

    def __init__(self, graph_def: bytes, parameters: Sequence[str], results: Sequence[str]):
        self._graph_def = graph_def
        self._parameters = tuple(parameters)
        self._results = tuple(results)
        self._lock = threading.Lock()
        self._graph: tf.Graph | None = None
        self._free: queue.SimpleQueue[_Running] = queue.SimpleQueue()
        self._all: list[_Running] = []

    @classmethod
    def trace(
        cls, function: Callable[..., Sequence[tf.Tensor]], specs: Sequence[tf.TensorSpec]
    ) -> "GraphFunction":
        """Traces `function` with symbolic tensors of the given specs."""
        with tf.Graph().as_default() as graph:
            parameters = [tf.compat.v1.placeholder(spec.dtype, spec.shape) for spec in specs]
            results = [tf.identity(result) for result in function(*parameters)]
        return cls(
            graph.as_graph_def().SerializeToString(),
            [tensor.name for tensor in parameters],
            [tensor.name for tensor in results],
        )

    @classmethod
    def from_computation(
        cls, computation: tff.Computation, last_results: int | None = None
    ) -> "GraphFunction":
        """Builds the function of a `tff.tensorflow.computation`, from leaves to leaves.

        Args:
          computation: A TensorFlow computation without sequences.
          last_results: Returns only this number of leaves of the result, the last ones. None
            returns all.

        Raises:
          ValueError: If the computation takes or returns a sequence, or is not a TensorFlow
            computation.
        """
        signature = computation.type_signature
        types = [*leaf_types(signature.parameter), *leaf_types(signature.result)]
        if not all(isinstance(leaf, tff.TensorType) for leaf in types):
            raise ValueError(f"Its leaves must be tensors, got {signature}.")
        piece = GraphPiece(computation, last_results=last_results)
        return cls.trace(
            lambda *leaves: piece(dict(zip(piece.parameters, leaves, strict=True))),
            tensor_specs(signature.parameter),
        )

    def adds_halves(self) -> bool:
        """Whether result i is parameter i plus parameter n + i of 2n parameters, all numbers."""
        graph = tf.compat.v1.GraphDef.FromString(self._graph_def)
        nodes = {node.name: node for node in graph.node}
        half = len(self._results)
        if len(self._parameters) != 2 * half:
            return False
        names = [name.removesuffix(":0") for name in self._parameters]

        def source(name: str) -> str:
            name = name.removesuffix(":0")
            while name in nodes and nodes[name].op == "Identity":
                name = nodes[name].input[0].removesuffix(":0")
            return name

        for index, result in enumerate(self._results):
            node = nodes.get(source(result))
            if node is None or node.op not in ("Add", "AddV2") or len(node.input) != 2:
                return False
            parameters = [source(name) for name in node.input]
            types = {nodes[name].attr["dtype"].type for name in parameters if name in nodes}
            shapes = [nodes[name].attr["shape"].shape for name in parameters if name in nodes]
            if parameters != [names[index], names[half + index]] or shapes[0] != shapes[1]:
                return False
            if not all(
                tf.as_dtype(one).is_floating or tf.as_dtype(one).is_integer for one in types
            ):
                return False
        return True

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 of the graph and its names. Functions with the same key are the same."""
        names = "\0".join([*self._parameters, "", *self._results]).encode()
        return hashlib.sha256(names + b"\0\0" + self._graph_def).hexdigest()

    def __call__(self, *leaves: Any) -> list[np.ndarray]:
        """Returns the results as arrays.

        Args:
          *leaves: Arrays, or values that NumPy converts to arrays.
        """
        if not self._results:
            return []
        free = self._free  # `close` replaces this queue
        try:
            running = free.get_nowait()
        except queue.Empty:
            running = self._start()
        try:
            return running.call(*leaves)
        finally:
            free.put(running)

    def close(self) -> None:
        """Aborts the running calls with a TensorFlow error, and frees memory."""
        with self._lock:
            closed, self._all, self._free = self._all, [], queue.SimpleQueue()
        for running in closed:
            running.session.close()

    def _start(self) -> _Running:
        """Creates a session for one more concurrent call."""
        with self._lock:
            if self._graph is None:
                self._graph = tf.Graph()
                with self._graph.as_default():
                    graph_def = tf.compat.v1.GraphDef.FromString(self._graph_def)
                    tf.graph_util.import_graph_def(graph_def, name="")
            graph = self._graph
            session = tf.compat.v1.Session(graph=graph, config=_session_config())
            tensors = [graph.get_tensor_by_name(name) for name in self._parameters]
            types = [tensor.dtype.as_numpy_dtype for tensor in tensors]
            run = session.make_callable(list(self._results), feed_list=tensors)

            def call(*leaves: Any) -> list[Any]:
                arrays = [np.asarray(leaf, t) for leaf, t in zip(leaves, types, strict=True)]
                return run(*arrays)

            running = _Running(session, call)
            self._all.append(running)
        return running

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphFunction, (self._graph_def, self._parameters, self._results)


def tensor_specs(type_spec: tff.Type | None) -> list[tf.TensorSpec]:
    """Returns the specs of all leaves of a type. All leaves must be tensors."""
    return [
        tf.TensorSpec(leaf.shape, tf.as_dtype(leaf.dtype.type)) for leaf in leaf_types(type_spec)
    ]


def _session_config() -> tf.compat.v1.ConfigProto:
    # A negative number runs operations on the calling thread.
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=-1
    )
    # Grappler costs a second of CPU time for each thread and makes no round faster.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
