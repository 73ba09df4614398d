"""Lets a TFF computation read a client's elements from tensors instead of a dataset.

TFF's client work, and a loop of the user, read a dataset in one of four ways:

    dataset.reduce(...)        `ReduceDataset`, TFF's default (`LoopImplementation.DATASET_REDUCE`)
    for batch in iter(dataset) an iterator and a loop (`LoopImplementation.DATASET_ITERATOR`)
    for batch in dataset       in a `tf.function`: `ScanDataset`, then `ReduceDataset`
    dataset.get_single_element()

In a pack of clients, all of them cost more than the training of a client with little text. For each
client, `ReduceDataset` instantiates the whole training step as a new function (0.03 to 0.3 s), and
an iterator copies the graph's library of functions.

`rewrite` replaces these operations in the graph of the computation, whichever the user's program
has. The computation then takes, in place of the dataset, a `tf.experimental.Optional` whose
components are the client's tensors. Both are scalar variants, so functions keep their signatures.
"""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tff_keyboard.data import elements as elements_lib
from tff_keyboard.execution.graph_piece import captured

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
_LOOPS = ("While", "StatelessWhile")
# Operations that read a dataset or an iterator, with the position of that input.
_READS = {"ReduceDataset": 0, "ScanDataset": 0, "MakeIterator": 0, "DatasetToSingleElement": 0}
_ITERATOR_READS = {"IteratorGetNextAsOptional": 0, "MakeIterator": 1}


def client_as_optional(client: Sequence[Sequence[tf.Tensor]]) -> tf.Tensor:
    """Returns the scalar variant from which a rewritten graph reads a client.

    Args:
      client: For each leaf of an element `(values, ends, shapes)`: numbers, and for each element of
        the client its end in `values` and its shape.
    """
    return tf.raw_ops.OptionalFromValue(components=[part for leaf in client for part in leaf])


class _UnsupportedReadError(Exception):
    """The graph uses the dataset in another way."""


class _Body(NamedTuple):
    """The main graph, or a function of its library."""

    nodes: Any  # repeated NodeDef
    function: Any  # the FunctionDef; None for the main graph

    def output(self, node: Any, name: str, index: int) -> str:
        """Returns the name by which other nodes read an output of `node`."""
        if self.function is not None:
            return f"{node.name}:{name}:{index}"
        return f"{node.name}:{index}" if index else node.name


class _Use(NamedTuple):
    """An operation that reads a tensor."""

    body: _Body
    node: Any
    is_in_loop: bool


def rewrite(graph: tf.compat.v1.GraphDef, parameter: str, spec: elements_lib.Spec) -> bool:
    """Replaces the operations that read datasets.

    Args:
      graph: Changed in place.
      parameter: Name of the tensor of the dataset with the client's elements.
      spec: Spec of an element.

    Returns:
      Whether the graph takes a `client_as_optional` for the parameter. If not, the graph uses the
      dataset in another way, such as `dataset.take(...)`, and takes a dataset. Reductions of any
      dataset are loops over an iterator then.
    """
    try:
        uses = _uses(graph, parameter, _READS)
        iterators = [_iterator(graph, u) if u.node.op == "MakeIterator" else None for u in uses]
        scans = {id(u.node): _reduction_of(u) for u in uses if u.node.op == "ScanDataset"}
    except _UnsupportedReadError:
        for body in _bodies(graph):
            for node in body.nodes:
                if node.op == "ReduceDataset":
                    _replace_reduction(graph, _Use(body, node, False), _dataset_elements)
        return False
    for number, (use, iterator) in enumerate(zip(uses, iterators, strict=True)):
        if iterator is not None:
            _replace_iterator(graph, use, *iterator, spec, f"client_iterator_{number}")
        elif use.node.op == "ReduceDataset":
            _replace_reduction(graph, use, _client_elements(spec))
        elif use.node.op == "ScanDataset":
            _replace_scan(graph, use, scans[id(use.node)], _client_elements(spec))
        else:
            _replace(
                graph, use, lambda client: _element(_leaves(client, spec), 0, spec), "components"
            )
    return True


def _iterator(graph, use: _Use) -> tuple[Any, list[_Use]]:
    """Returns the node of the iterator that `use` starts, and the operations that read it."""
    name = use.node.input[1].split(":")[0]
    [handle] = [node for node in use.body.nodes if node.name == name] or [None]
    # Iterations of a loop may overlap, and the new iterator is one variable for all.
    if handle is None or handle.op != "AnonymousIteratorV3" or use.is_in_loop:
        raise _UnsupportedReadError
    reads = _uses(
        graph,
        use.body.output(handle, "handle", 0),
        _ITERATOR_READS,
        use.body,
    )
    starts = [read for read in reads if read.node.op == "MakeIterator"]
    if len(starts) != 1:
        raise _UnsupportedReadError
    return handle, [read for read in reads if read.node.op != "MakeIterator"]


def _reduction_of(use: _Use) -> Any:
    """Returns the node of the reduction that alone reads the results of a scan."""
    output, control = use.body.output(use.node, "handle", 0), f"^{use.node.name}"
    readers = [
        node
        for node in use.body.nodes
        if any(_tensor_name(name) == output or name == control for name in node.input)
    ]
    is_result = use.body.function is not None and output in use.body.function.ret.values()
    if len(readers) != 1 or readers[0].op != "ReduceDataset" or is_result:
        raise _UnsupportedReadError
    return readers[0]


def _uses(graph, tensor: str, reads: dict[str, int], body: _Body | None = None) -> list[_Use]:
    """Returns the operations that read a tensor, also inside of functions.

    Args:
      graph: The graph.
      tensor: Name of the tensor.
      reads: Names of the operations, with the position of their input.
      body: The tensor's; None means the main graph.

    Raises:
      _UnsupportedReadError: Another operation reads the tensor, or it reaches a function that is
        also called with other tensors.
    """
    functions = {f.signature.name: f for f in graph.library.function}
    references = collections.Counter(
        name for each in _bodies(graph) for node in each.nodes for name in _functions_of(node)
    )
    uses = []

    def visit_function(name: str, position: int, in_loop: bool) -> set[str]:
        """Visits a function to which the tensor is passed. Returns the tensor's names in it."""
        if references[name] != 1:
            raise _UnsupportedReadError
        function = functions[name]
        argument = function.signature.input_arg[position].name
        return visit(_Body(function.node_def, function), argument, in_loop)

    def visit_without_result(name: str, position: int, in_loop: bool) -> None:
        """Visits a function to which the tensor is passed, and which must not return it."""
        aliases = visit_function(name, position, in_loop)
        if aliases & set(functions[name].ret.values()):
            raise _UnsupportedReadError

    def visit(body: _Body, tensor: str, in_loop: bool) -> set[str]:
        """Adds to `uses`, and returns all names of the tensor in the body."""
        aliases = {tensor}
        to_visit = [tensor]
        while to_visit:
            name = to_visit.pop()
            for node in body.nodes:
                for position, read in enumerate(node.input):
                    if _tensor_name(read) == name:
                        for alias in visit_node(body, node, position, in_loop):
                            aliases.add(alias)
                            to_visit.append(alias)
        return aliases

    def visit_node(body: _Body, node, position: int, in_loop: bool) -> list[str]:
        """Returns the outputs of the node that equal its input at the position."""
        if reads.get(node.op) == position:
            uses.append(_Use(body, node, in_loop))
        elif node.op == "Identity":
            return [body.output(node, "output", 0)]
        elif node.op in _CALLS:
            visit_without_result(node.attr["f"].func.name, position, in_loop)
        elif node.op in _BRANCHES and position:
            for branch in _functions_of(node):
                visit_without_result(branch, position - 1, in_loop)
        elif node.op in _LOOPS:
            visit_without_result(node.attr["cond"].func.name, position, True)
            name = node.attr["body"].func.name
            result = functions[name].signature.output_arg[position].name
            if functions[name].ret[result] not in visit_function(name, position, True):
                raise _UnsupportedReadError
            return [body.output(node, "output", position)]
        else:
            raise _UnsupportedReadError
        return []

    visit(body or _Body(graph.node, None), _tensor_name(tensor), False)
    return uses


def _replace_iterator(graph, use: _Use, handle, reads, spec, name: str) -> None:
    """Makes the iterator a variable with the position of the next element and the client."""

    def start(client, iterator):
        value = tf.raw_ops.OptionalFromValue(components=[tf.constant(0), client])
        tf.raw_ops.AssignVariableOp(resource=iterator, value=value)

    def next_element(iterator):
        """Returns the next element as an optional, empty after the last, and moves the iterator."""
        value = tf.raw_ops.ReadVariableOp(resource=iterator, dtype=tf.variant)
        position, client = tf.raw_ops.OptionalGetValue(
            optional=value, output_types=[tf.int32, tf.variant], output_shapes=[[], []]
        )
        leaves = _leaves(client, spec)

        def some():
            following = tf.raw_ops.OptionalFromValue(components=[position + 1, client])
            tf.raw_ops.AssignVariableOp(resource=iterator, value=following)
            return tf.raw_ops.OptionalFromValue(components=_element(leaves, position, spec))

        return tf.cond(position < tf.size(leaves[0][1]), some, tf.raw_ops.OptionalNone)

    _rename_outputs(use.body, handle, "handle", "resource")
    handle.op = "VarHandleOp"
    handle.attr.clear()
    handle.attr["dtype"].type = tf.variant.as_datatype_enum
    handle.attr["shape"].shape.SetInParent()
    handle.attr["shared_name"].s = name.encode()
    _replace(graph, use, start, None)
    for read in reads:
        _replace(graph, read, next_element, "optional")


class _Fold:
    """The function of a `ReduceDataset` or `ScanDataset`, and the types of its arguments."""

    def __init__(self, graph, node):
        attributes = node.attr
        self.name = attributes["f"].func.name
        self._library = _needed_library(graph.library, [self.name])
        [function] = [f for f in graph.library.function if f.signature.name == self.name]
        self._outputs = [argument.type for argument in function.signature.output_arg]
        self.state_types = list(attributes["Tstate"].list.type)
        self.captured_types = list(attributes["Targuments"].list.type)
        inputs = [argument.type for argument in function.signature.input_arg]
        self.element_types = inputs[len(self.state_types) : len(inputs) - len(self.captured_types)]

    def split(self, tensors: Sequence[tf.Tensor]) -> tuple[Sequence[tf.Tensor], ...]:
        """Returns the initial state, the captured arguments, and the tensors after these."""
        first = len(self.state_types)
        last = first + len(self.captured_types)
        return tensors[:first], tensors[first:last], tensors[last:]

    def __call__(self, state, element, captures) -> list[tf.Tensor]:
        return _call(self.name, self._library, [*state, *element, *captures], self._outputs)


def _replace_reduction(graph, use: _Use, elements_of) -> None:
    """Replaces `ReduceDataset` by a loop of the graph that calls its function.

    `elements_of(dataset, element_types)` returns a function that folds over the elements, as
    `_client_elements` does.
    """
    fold = _Fold(graph, use.node)
    shapes = _shapes_of(use.node)

    def reduce(dataset, *tensors):
        state, captures, _ = fold.split(tensors)

        def step(state, element):
            return _with_shapes(fold(state, element, captures), shapes)

        return elements_of(dataset, fold.element_types)(step, state, shapes)

    _replace(graph, use, reduce, "components")


def _replace_scan(graph, use: _Use, reduction, elements_of) -> None:
    """Replaces `ScanDataset` and the `ReduceDataset` of its results by one loop of the graph."""
    scan, fold = _Fold(graph, use.node), _Fold(graph, reduction)
    shapes = [*([tf.TensorShape(None)] * len(scan.state_types)), *_shapes_of(reduction)]

    def reduce(dataset, *tensors):
        scan_state, scan_captures, of_reduction = scan.split(tensors)
        state, captures, _ = fold.split(of_reduction)

        def step(states, element):
            results = scan(states[: len(scan_state)], element, scan_captures)
            next_state, result = results[: len(scan_state)], results[len(scan_state) :]
            total = fold(states[len(scan_state) :], result, captures)
            return _with_shapes([*next_state, *total], shapes)

        states = elements_of(dataset, scan.element_types)(step, [*scan_state, *state], shapes)
        return states[len(scan_state) :]

    types = [*_input_types(use.node), *_input_types(reduction)[1:]]
    names = [*use.node.input, *reduction.input[1:]]
    inputs = [name for name in names if not name.startswith("^")]
    controls = {name for name in names if name.startswith("^")} - {f"^{use.node.name}"}
    del reduction.input[:]
    reduction.input.extend([*inputs, *sorted(controls)])
    _replace(graph, use._replace(node=reduction), reduce, "components", types)
    use.body.nodes.remove(use.node)


def _shapes_of(node) -> list[tf.TensorShape]:
    return [tf.TensorShape(shape) for shape in node.attr["output_shapes"].list.shape]


def _with_shapes(tensors: Sequence[tf.Tensor], shapes) -> Sequence[tf.Tensor]:
    """Sets the static shapes of tensors, and returns the tensors."""
    for tensor, shape in zip(tensors, shapes, strict=True):
        tensor.set_shape(shape)
    return tensors


Step = Callable[[Sequence[tf.Tensor], Sequence[tf.Tensor]], Sequence[tf.Tensor]]


def _client_elements(spec: elements_lib.Spec):
    """Returns a function of a `client_as_optional`, whose result folds a step over the client.

    The fold takes `(step, state, shapes)` and returns the last state, a list of tensors.
    """

    def of(client, element_types):
        def fold(step: Step, state, shapes):
            leaves = _leaves(client, spec)
            return tf.while_loop(
                lambda i, *_: i < tf.size(leaves[0][1]),
                lambda i, *state: (i + 1, *step(state, _element(leaves, i, spec))),
                (tf.constant(0), *state),
                shape_invariants=(tf.TensorShape([]), *shapes),
                parallel_iterations=1,
            )[1:]

        return fold

    return of


def _dataset_elements(variant, element_types):
    """Returns a fold over the elements of a dataset variant, like that of `_client_elements`."""
    specs = tuple(tf.TensorSpec(None, tf.as_dtype(t)) for t in element_types)

    def fold(step: Step, state, shapes):
        iterator = iter(tf.data.experimental.from_variant(variant, specs))

        def advance(_, *state):
            element = iterator.get_next_as_optional()
            return tf.cond(
                element.has_value(),
                lambda: (True, *step(state, element.get_value())),
                lambda: (False, *state),
            )

        return tf.while_loop(
            lambda has_more, *_: has_more,
            advance,
            (tf.constant(True), *state),
            shape_invariants=(tf.TensorShape([]), *shapes),
            parallel_iterations=1,
        )[1:]

    return fold


def _leaves(client: tf.Tensor, spec: elements_lib.Spec) -> list[Sequence[tf.Tensor]]:
    """Returns `(values, ends, shapes)` of each leaf of a `client_as_optional`."""
    flat = tf.nest.flatten(spec)
    parts = tf.raw_ops.OptionalGetValue(
        optional=client,
        output_types=[t for leaf in flat for t in (leaf.dtype, tf.int64, tf.int64)],
        output_shapes=[s for leaf in flat for s in ([None], [None], [None, leaf.shape.rank])],
    )
    return [parts[i : i + 3] for i in range(0, len(parts), 3)]


def _element(leaves, index, spec: elements_lib.Spec) -> list[tf.Tensor]:
    """Returns the tensors of an element, in the order of datasets (`tf.nest`)."""
    return [
        elements_lib.slice_of(values, ends[index], shapes[index], leaf)
        for (values, ends, shapes), leaf in zip(leaves, tf.nest.flatten(spec), strict=True)
    ]


def _call(name: str, library, inputs, output_types) -> list[tf.Tensor]:
    """Calls a function of a library in the current graph."""
    graph = tf.compat.v1.get_default_graph()
    definition = tf.compat.v1.GraphDef(library=library)
    feeds = {f"input_{i}": captured(tensor, graph) for i, tensor in enumerate(inputs)}
    for feed, tensor in feeds.items():
        placeholder = definition.node.add(name=feed, op="Placeholder")
        placeholder.attr["dtype"].type = tensor.dtype.as_datatype_enum
    call = definition.node.add(name="call", input=list(feeds))
    _make_call(call, name, [t.dtype.as_datatype_enum for t in feeds.values()], output_types)
    results = [f"call:{i}" for i in range(len(output_types))]
    return tf.graph_util.import_graph_def(
        definition, input_map=feeds, return_elements=results, name="step"
    )


def _replace(
    graph,
    use: _Use,
    function,
    output_name: str | None,
    types: Sequence[tf.DType] | None = None,
) -> None:
    """Replaces an operation by a call of a function of its inputs.

    Args:
      graph: Gets the function.
      use: The operation.
      function: Takes and returns tensors.
      output_name: Name of the operation's outputs in its definition; None if it has none.
      types: Types of its inputs; those of an operation of `_READS` if left out.
    """
    body, node, _ = use
    inputs = [name for name in node.input if not name.startswith("^")]
    types = types or _input_types(node)
    with tf.Graph().as_default() as scratch:
        traced = tf.function(function, autograph=False)
        traced(*(tf.compat.v1.placeholder(t, [] if t == tf.variant else None) for t in types))
    definition = scratch.as_graph_def()
    [call] = [each for each in definition.node if each.op in _CALLS]
    present = {each.signature.name for each in graph.library.function}
    graph.library.function.extend(
        each for each in definition.library.function if each.signature.name not in present
    )
    if output_name is not None:
        _rename_outputs(body, node, output_name, "output")
    assert len(inputs) == len(types)
    _make_call(
        node, call.attr["f"].func.name, call.attr["Tin"].list.type, call.attr["Tout"].list.type
    )


def _make_call(node, name: str, input_types, output_types) -> None:
    """Makes `node` a call of the function `name`, in place."""
    node.op = "StatefulPartitionedCall"
    node.attr.clear()
    node.attr["f"].func.name = name
    node.attr["Tin"].list.type.extend(input_types)
    node.attr["Tin"].list.SetInParent()
    node.attr["Tout"].list.type.extend(output_types)
    node.attr["Tout"].list.SetInParent()


def _input_types(node) -> list[tf.DType]:
    """Returns the types of the inputs of an operation of `_READS` or `_ITERATOR_READS`."""
    if node.op in ("ReduceDataset", "ScanDataset"):
        states, captures = (node.attr[name].list.type for name in ("Tstate", "Targuments"))
        return [tf.variant, *map(tf.as_dtype, states), *map(tf.as_dtype, captures)]
    if node.op == "MakeIterator":
        return [tf.variant, tf.resource]
    return [tf.resource if node.op == "IteratorGetNextAsOptional" else tf.variant]


def _rename_outputs(body: _Body, node, before: str, after: str) -> None:
    """Renames an output of `node` from `before` to `after` wherever the body reads it.

    Only functions name an output. In the main graph, outputs are numbered, so nothing changes.
    """
    if body.function is None:
        return
    prefix = f"{node.name}:{before}:"

    def renamed(name: str) -> str:
        return f"{node.name}:{after}:{name[len(prefix) :]}" if name.startswith(prefix) else name

    for reader in body.nodes:
        for position, name in enumerate(reader.input):
            reader.input[position] = renamed(name)
    for key, name in body.function.ret.items():
        body.function.ret[key] = renamed(name)


def _bodies(graph) -> Iterator[_Body]:
    """Yields the main graph, and each function of its library."""
    yield _Body(graph.node, None)
    for function in list(graph.library.function):
        yield _Body(function.node_def, function)


def _functions_of(node) -> list[str]:
    """Returns the names of the functions that a node calls, with repetitions."""
    single = [value.func.name for value in node.attr.values() if value.HasField("func")]
    lists = [f.name for value in node.attr.values() for f in value.list.func]
    return single + lists


def _needed_library(library, names: Sequence[str]):
    """Returns the part of a library that functions need."""
    functions = {f.signature.name: f for f in library.function}
    needed: dict[str, Any] = {}
    to_visit = list(names)
    while to_visit:
        name = to_visit.pop()
        if name not in needed:
            needed[name] = functions[name]
            to_visit.extend(c for node in functions[name].node_def for c in _functions_of(node))
    return type(library)(function=needed.values())


def _tensor_name(name: str) -> str:
    return name.removesuffix(":0") if name.count(":") == 1 else name
