"""A TFF TensorFlow computation as a part of any graph, also inside a loop."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.execution import row_work

_STATELESS_SOURCES = ("Placeholder", "Const", "VarHandleOp")


def is_tensorflow(computation: tff.Computation) -> bool:
    """Checks if a computation is a TensorFlow graph, and not built of TFF's own operators."""
    proto = tff.framework.ConcreteComputation.get_proto(computation)
    return bool(proto.WhichOneof("computation") == "tensorflow")


class RowWork:
    """The part of a `GraphPiece` that `row_work.of_rows` marks.

    Attributes:
      rows: Name of the tensor of the rows.
      results: Names of the tensors of the results that the rest of the piece uses.
    """

    def __init__(self, graph: tf.compat.v1.GraphDef, rows: str, results: Sequence[str]):
        self._graph = graph
        self.rows, self.results = rows, list(results)

    def __call__(self, feeds: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Inserts the part and returns the tensors of `results`.

        Args:
          feeds: Tensors by name: the piece's parameters without sequences, and `rows`.
        """
        return _import(self._graph, feeds, self.results, "row_work")


class GraphPiece:
    """The graph of a `tff.tensorflow.computation`, ready to be inserted in the current graph.

    Its variables are initialised anew at each execution, as in TFF; in a loop, at each iteration.

    Args:
      computation: A `tff.tensorflow.computation`.
      last_results: Computes only this number of leaves of the result, the last ones. None computes
        all.
      rewrite: Takes the graph and `parameters`, and changes the graph in place.
      in_loop: Whether the piece is inserted in the body of a loop, which then feeds the tensors of
        `make_variables`, `draws` and `row_work.results`, too.

    Attributes:
      parameters: Tensor names of the parameter's leaves, in the order of the type. A sequence has
        one name.
      draws: In a loop, names of the tensors of random numbers from fixed seeds, such as the initial
        weights of a Keras model. They are the same in each iteration, and to draw them takes longer
        than the training of a client with one message.
      row_work: In a loop, the part that `row_work.of_rows` marks, which is split off; None without.
    """

    def __init__(
        self,
        computation: tff.Computation,
        *,
        last_results: int | None = None,
        rewrite: Callable[[tf.compat.v1.GraphDef, list[str]], None] | None = None,
        in_loop: bool = False,
    ):
        proto = tff.framework.ConcreteComputation.get_proto(computation).tensorflow
        self._graph = tf.compat.v1.GraphDef()
        proto.graph_def.Unpack(self._graph)
        has_parameter = computation.type_signature.parameter is not None
        self.parameters = _names(proto.parameter) if has_parameter else []
        if rewrite is not None:
            rewrite(self._graph, self.parameters)
        results = _names(proto.result)
        self.results = results if last_results is None else results[len(results) - last_results :]
        if proto.initialize_op:
            self._initialise_first(proto.initialize_op)
        # In a loop, nodes that no result needs would run.
        _keep(self._graph, _needed_by(self._graph, self.results))
        self._forget_places_of_other_nodes()
        self._variables = [node for node in self._graph.node if node.op == "VarHandleOp"]
        self.draws: list[str] = []
        self._draws_graph = tf.compat.v1.GraphDef()
        if in_loop:
            self._move_draws()
        self.row_work = self._split_row_work() if in_loop else None

    def make_variables(self) -> dict[str, tf.Tensor]:
        """Creates variable handles in the current graph, for `__call__` in a loop.

        All iterations of the loop then share one resource.
        """
        return {
            f"{node.name}:0": tf.raw_ops.VarHandleOp(
                dtype=node.attr["dtype"].type,
                shape=tf.TensorShape(node.attr["shape"].shape),
                shared_name="pack_" + node.name.replace("/", "_"),
            )
            for node in self._variables
        }

    def make_draws(self) -> list[tf.Tensor]:
        """Creates the tensors of `draws` in the current graph."""
        return _import(self._draws_graph, {}, self.draws, "draws")

    def __call__(self, feeds: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Inserts the piece and returns the tensors of `results`.

        Args:
          feeds: Tensors by name: parameters, and in a loop those that `in_loop` names. Tensors that
            the piece does not use are ignored.
        """
        return _import(self._graph, feeds, self.results, "piece")

    def _initialise_first(self, initialize_op: str) -> None:
        """Makes every node that the initialisation does not need wait for the initialisation."""
        needed = _needed_by(self._graph, [initialize_op])
        for node in self._graph.node:
            if node.name not in needed and node.op not in _STATELESS_SOURCES:
                node.input.append(f"^{_node_name(initialize_op)}")

    def _forget_places_of_other_nodes(self) -> None:
        """Drops wishes to be on the device of a node that is not in the graph, as a parameter.

        `tf.linalg.global_norm` has such wishes.
        """
        names = {node.name for node in self._graph.node}
        for node in self._graph.node:
            wishes = node.attr["_class"].list.s if "_class" in node.attr else []
            if any(wish.decode().removeprefix("loc:@") not in names for wish in wishes):
                node.attr.pop("_class")

    def _move_draws(self) -> None:
        """Moves stateless random operations, and all that depends on them alone, to `draws`."""
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(self._graph, name="")
        constant_names: set[str] = set()
        draw_names: set[str] = set()
        for operation in graph.get_operations():  # an operation comes after its inputs
            inputs = {tensor.op.name for tensor in operation.inputs}
            if (
                inputs <= constant_names
                and not operation.op_def.is_stateful
                and operation.type not in ("Placeholder", "NoOp")
                and not operation.control_inputs
            ):
                constant_names.add(operation.name)
                if operation.type.startswith("StatelessRandom") or inputs & draw_names:
                    draw_names.add(operation.name)
        nodes = {node.name: node for node in self._graph.node}
        remaining_nodes = [node for node in nodes.values() if node.name not in draw_names]
        read = [*self.results, *(name for node in remaining_nodes for name in node.input)]
        self.draws = sorted({_tensor_name(name) for name in read if _node_name(name) in draw_names})
        for name in sorted(_needed_by(self._graph, self.draws)):
            node = self._draws_graph.node.add()
            node.CopyFrom(nodes[name])
            node.attr.pop("_class", None)  # a variable's place
        self._draws_graph.library.CopyFrom(self._graph.library)
        self._draws_graph.versions.CopyFrom(self._graph.versions)
        _keep(self._graph, nodes.keys() - draw_names)

    def _split_row_work(self) -> RowWork | None:
        """Moves the operations between the marks of `row_work` to a graph of their own.

        Returns that graph with its input and results; None if the computation has no marks.
        """
        marks = row_work.find_marks([node.name for node in self._graph.node])
        if marks is None:
            return None
        rows, results = marks
        read = {name.split(":")[0] for node in self._graph.node for name in node.input}
        results = [name for name in results if name in read]
        graph = tf.compat.v1.GraphDef()
        graph.CopyFrom(self._graph)
        for node in graph.node:  # it reads no variables, so it waits for no initialisation
            data = [name for name in node.input if not name.startswith("^")]
            del node.input[len(data) :]
        _keep(graph, _needed_by(graph, results, {rows}))
        fed = {*results, *map(_node_name, self.draws)}
        _keep(self._graph, _needed_by(self._graph, self.results, fed))
        return RowWork(graph, f"{rows}:0", [f"{name}:0" for name in results])


def _needed_by(
    graph: tf.compat.v1.GraphDef, names: Iterable[str], fed: Collection[str] = ()
) -> set[str]:
    """Returns the named nodes and their dependencies. The search stops at `fed`."""
    nodes = {node.name: node for node in graph.node}
    needed: set[str] = set()
    to_visit = [_node_name(name) for name in names]
    while to_visit:
        name = to_visit.pop()
        if name not in needed and name not in fed:
            needed.add(name)
            to_visit.extend(_node_name(i) for i in nodes[name].input)
    return needed


def _keep(graph: tf.compat.v1.GraphDef, names: Collection[str]) -> None:
    """Drops all other nodes."""
    nodes = [node for node in graph.node if node.name in names]
    del graph.node[:]
    graph.node.extend(nodes)


def _import(
    graph_def: tf.compat.v1.GraphDef,
    feeds: Mapping[str, tf.Tensor],
    results: Sequence[str],
    name: str,
) -> list[tf.Tensor]:
    """Inserts a graph into the current one, and returns its results. Ignores unused feeds."""
    graph = tf.compat.v1.get_default_graph()
    read = {_node_name(source) for node in graph_def.node for source in node.input}
    read |= {_node_name(result) for result in results}
    inputs = {
        source: captured(tensor, graph)
        for source, tensor in feeds.items()
        if _node_name(source) in read
    }
    return tf.graph_util.import_graph_def(
        graph_def, input_map=inputs, return_elements=list(results), name=name
    )


def _names(binding) -> list[str]:
    """Returns the names of all tensors of a parameter or result, in order."""
    kind = binding.WhichOneof("binding")
    if kind == "struct":
        return [name for element in binding.struct.element for name in _names(element)]
    if kind == "sequence":
        return [binding.sequence.variant_tensor_name]
    return [binding.tensor.tensor_name]


def _node_name(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def _tensor_name(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def captured(tensor: tf.Tensor, graph: tf.Graph) -> tf.Tensor:
    """Returns `tensor` in `graph`. Importing into the body of a loop does not capture by itself."""
    if getattr(tensor, "graph", graph) is graph:
        return tensor
    return graph.capture(tensor)
