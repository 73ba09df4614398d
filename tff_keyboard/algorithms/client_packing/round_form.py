"""Splits a TFF computation over clients into TensorFlow functions that run in this process.

TFF cuts a computation that broadcasts, works at the clients and aggregates into the parts of its
`MapReduceForm` (prepare, work, zero, accumulate, merge, report, update). If a client holds a
sequence, `work` and `accumulate` of all clients of a *pack* become one loop in one graph. If
clients have little text, this is several times faster than one call for each client. If a client
holds tensors, it is one call.
"""

import collections
import contextlib
import contextvars
import dataclasses
import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing import dataset_reads
from tff_keyboard.algorithms.client_packing.row_groups import RowGroups
from tff_keyboard.data import elements as elements_lib
from tff_keyboard.execution.engine import Engine, Job, fold_in_order
from tff_keyboard.execution.graph_function import (
    GraphFunction,
    leaf_types,
    leaves_of,
    pack_as,
    tensor_specs,
)
from tff_keyboard.execution.graph_piece import GraphPiece

# Changes the leaves of the values at the server, given the leaves of the clients' sums.
FillServer: TypeAlias = Callable[[Sequence[Any], Sequence[np.ndarray]], list[Any]]

_before_update = contextvars.ContextVar[FillServer | None]("_before_update", default=None)


class CannotPackError(ValueError):
    """An error of a computation whose form or client data cannot run in this process."""


@dataclasses.dataclass(frozen=True)
class PackFunction:
    """An `execution.engine.Function` from the leaves for all clients and a pack to sums.

    An item is a pack as `make_pack` returns it, or a small object whose `make()` returns one.
    `make()` is called where the pack is computed, so only names of clients travel to a node.
    """

    function: GraphFunction

    @property
    def key(self) -> str:
        return self.function.key

    def __call__(self, shared: Sequence[Any], item: Any) -> list[np.ndarray]:
        """Returns the sums of a pack, given the leaves that all clients share."""
        pack = item.make() if hasattr(item, "make") else item
        data = [array for leaf in pack["leaves"] for array in leaf.values()]
        return self.function(*data, pack["ends"], *shared)

    def close(self) -> None:
        """Frees the function (`Function.close`)."""
        self.function.close()


class ClientFunction:
    """An `execution.engine.Function` from one client's own leaves to its sums."""

    def __init__(self, work: GraphFunction, accumulate: GraphFunction, zero: Sequence[np.ndarray]):
        self._work, self._accumulate, self._zero = work, accumulate, zero

    @functools.cached_property
    def key(self) -> str:
        return hashlib.sha256((self._work.key + self._accumulate.key).encode()).hexdigest()

    def __call__(self, shared: Sequence[Any], item: Sequence[Any]) -> list[np.ndarray]:
        return self._accumulate(*self._zero, *self._work(*item, *shared))

    def close(self) -> None:
        """Frees the function (`Function.close`)."""
        self._work.close()
        self._accumulate.close()


@contextlib.contextmanager
def before_update(fill: FillServer) -> Iterator[None]:
    """Calls `fill` between the sums of the clients and the server's update, in this context.

    `fill` gets the leaves of the values at the server, the same objects that the computation was
    called with, and the leaves of the sums. It returns the leaves for the update.
    """
    token = _before_update.set(fill)
    try:
        yield
    finally:
        _before_update.reset(token)


class RoundForm:
    """A computation over clients, in parts that run in this process or on an engine's nodes.

    Args:
      computation: Takes values at the server and at clients, and returns values at the server.

    Attributes:
      element_spec: Spec of an element of the clients' sequences; None if clients hold tensors.
      shares_row_work: Whether the clients of a pack share work (`execution/row_work.py`).

    Raises:
      CannotPackError: The computation broadcasts after it aggregates, or returns values at clients,
        or its clients hold a sequence and other values, or elements of unknown rank.
    """

    def __init__(self, computation: tff.Computation):
        self._columns = _Columns(computation.type_signature.parameter)
        self._result_type = computation.type_signature.result
        self.element_spec = _element_spec(self._columns.client_type)
        form = _map_reduce_form(computation, self._columns)
        self._prepare = GraphFunction.from_computation(form.prepare)
        self._merge = _merge_function(GraphFunction.from_computation(form.merge))
        self._report = GraphFunction.from_computation(form.report)
        self._zero = GraphFunction.from_computation(form.zero)()
        _, self._output_type = form.update.type_signature.result
        num_results = len(leaf_types(self._output_type))
        self._update = GraphFunction.from_computation(form.update, num_results)
        self.function: PackFunction | ClientFunction
        self._draws: list[np.ndarray] = []
        self.shares_row_work = False
        if self.element_spec is not None:
            work, loop = _pack_loop(form, self.element_spec)
            self.shares_row_work = work.row_work is not None
            self._draws = GraphFunction.trace(work.make_draws, [])()
            specs = [
                *pack_specs(self.element_spec),
                *tensor_specs(form.prepare.type_signature.result),
                *(tf.TensorSpec(draw.shape, draw.dtype) for draw in self._draws),
            ]
            self.function = PackFunction(GraphFunction.trace(loop, specs))
        else:
            self.function = ClientFunction(
                GraphFunction.from_computation(form.work),
                GraphFunction.from_computation(form.accumulate),
                self._zero,
            )
        self._aggregation_seconds = 0.0

    def __call__(self, engine: Engine, server: Sequence[Any], items: Sequence[Any]) -> Any:
        """Computes the result.

        Args:
          engine: Computes the sums of the items.
          server: Leaves of the values at the server.
          items: Packs, or the leaves of each client.
        """
        job = Job(self.function, [*self._prepare(*server), *self._draws], items)
        with contextlib.closing(engine.run(job)) as results:
            sums = fold_in_order(results, self._merge_sums)
        sums = self._zero if sums is None else sums
        fill = _before_update.get()
        if fill is not None:
            server = fill(server, sums)
        start = time.perf_counter()
        output = self._update(*server, *self._report(*sums))
        self._aggregation_seconds += time.perf_counter() - start
        packed = pack_as(self._output_type, iter(output))
        return tff.types.type_to_py_container(packed, self._result_type)

    def split(self, argument: Any) -> tuple[list[Any], list[list[Any]]]:
        """Returns the leaves of the values at the server, and a list of leaves for each client."""
        return self._columns.split(argument)

    def pop_aggregation_seconds(self) -> float:
        """Returns the seconds of merging and of the server since the last call."""
        seconds, self._aggregation_seconds = self._aggregation_seconds, 0.0
        return seconds

    def _merge_sums(self, first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the sum of two packs' sums, and counts the seconds that this takes."""
        start = time.perf_counter()
        merged = self._merge(first, second)
        self._aggregation_seconds += time.perf_counter() - start
        return merged


def make_pack(clients: Sequence[Sequence[Any]], spec: elements_lib.Spec) -> collections.OrderedDict:
    """Returns a pack: the elements of its clients, concatenated, as NumPy arrays.

    Args:
      clients: The elements of each client.
      spec: Spec of an element.

    Returns:
      `leaves`, for each leaf of an element its `values` in all elements, [numbers], and the
      `shapes` of each, int64 [elements, rank]; and `ends`, int64 [clients]: the end of each
      client's elements.
    """
    joined = elements_lib.join([element for client in clients for element in client], spec)
    pairs = elements_lib.leaves(joined)
    leaves = [collections.OrderedDict(values=values, shapes=shapes) for values, shapes in pairs]
    ends = np.cumsum([len(client) for client in clients], dtype=np.int64)
    return collections.OrderedDict(leaves=leaves, ends=ends)


def pack_specs(spec: elements_lib.Spec) -> list[tf.TensorSpec]:
    """Returns the specs of a pack's tensors, in the order of a function's arguments."""
    leaves = [
        part
        for leaf in tf.nest.flatten(spec)
        for part in (
            tf.TensorSpec([None], leaf.dtype),
            tf.TensorSpec([None, leaf.shape.rank], tf.int64),
        )
    ]
    return [*leaves, tf.TensorSpec([None], tf.int64)]


def _merge_function(
    merge: GraphFunction,
) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """Returns the function of the sums of two packs: `merge`, or NumPy if it only adds.

    A call of TensorFlow copies all sums into its session and out of it, which takes several times
    as long as adding them.
    """
    if not merge.adds_halves():
        return lambda first, second: merge(*first, *second)
    last: list[Any] = []  # the previous result, whose arrays are only used here

    def add(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        nonlocal last
        is_ours = first is last  # other arrays may share memory with TensorFlow
        last = [
            np.add(x, y, out=x) if is_ours and np.ndim(x) else np.add(x, y)
            for x, y in zip(first, second, strict=True)
        ]
        return last

    return add


class _Columns:
    """Positions of the values at the server and at the clients in an argument."""

    def __init__(self, parameter: tff.Type):
        self._parameter = parameter
        leaves = leaf_types(parameter)
        for leaf in leaves:
            if not isinstance(leaf, tff.FederatedType):
                raise CannotPackError(f"Arguments are at the server or at clients, got {leaf}.")
            if leaf.placement is tff.CLIENTS and leaf.all_equal:
                raise CannotPackError(
                    "All clients receive the same value, so the number of clients is unknown."
                )
        self._at_server = [leaf.placement is tff.SERVER for leaf in leaves]
        server, clients = self._parted([leaf.member for leaf in leaves])
        if not clients:
            raise CannotPackError(f"No part of {parameter} is placed at clients.")
        self.server_type = tff.to_type(server)
        self._clients_type = tff.to_type(clients)
        # TFF makes simpler graphs of a single sequence than of a structure that holds it.
        self._is_single = len(clients) == 1
        self.client_type = clients[0] if self._is_single else self._clients_type

    def arguments(self, server: Any, clients: Any) -> list[Any]:
        """Returns the arguments for the two values, in a federated computation."""
        at_server = iter([server[i] for i in range(len(self.server_type))])
        at_clients = iter(
            [clients] if self._is_single else [clients[i] for i in range(len(self._clients_type))]
        )
        parts = [next(at_server if is_there else at_clients) for is_there in self._at_server]
        packed = pack_as(self._parameter, iter(parts))
        if isinstance(self._parameter, tff.StructType):
            return [part for _, part in tff.structure.iter_elements(packed)]
        return [packed]

    def split(self, argument: Any) -> tuple[list[Any], list[list[Any]]]:
        """Splits an argument like `RoundForm.split`."""
        server, columns = self._parted(leaves_of(argument, self._parameter))
        return leaves_of(server, self.server_type), [
            leaves_of(client, self._clients_type) for client in zip(*columns, strict=True)
        ]

    def _parted(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Returns the leaves at the server and the leaves at the clients."""
        pairs = list(zip(leaves, self._at_server, strict=True))
        return [x for x, at_server in pairs if at_server], [x for x, there in pairs if not there]


def _element_spec(client_type: tff.Type) -> elements_lib.Spec | None:
    """Returns the spec of an element of the clients' sequences; None if they hold tensors."""
    leaves = leaf_types(client_type)
    if all(isinstance(leaf, tff.TensorType) for leaf in leaves):
        return None
    if not isinstance(client_type, tff.SequenceType):
        raise CannotPackError(f"Clients must have one sequence or only tensors, got {client_type}.")
    spec = tff.types.type_to_tf_tensor_specs(client_type.element)
    try:
        elements_lib.joined_spec(spec)
    except ValueError as error:
        raise CannotPackError(str(error)) from error
    return spec


def _map_reduce_form(
    computation: tff.Computation, columns: _Columns
) -> tff.backends.mapreduce.MapReduceForm:
    """Returns TFF's form of the computation, as a function of one server and one clients value."""
    config = tf.compat.v1.ConfigProto()  # grappler runs later, once, on the whole graph
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    try:

        @tff.federated_computation(
            tff.FederatedType(columns.server_type, tff.SERVER),
            tff.FederatedType(columns.client_type, tff.CLIENTS),
        )
        def of_server_and_clients(server, clients):
            result = computation(*columns.arguments(server, clients))
            if isinstance(result.type_signature, tff.StructType):
                result = tff.federated_zip(result)
            return server, result

        form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
            of_server_and_clients, grappler_config=config
        )
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CannotPackError(f"TFF finds no MapReduceForm of it: {reason}") from error
    if form.securely_aggregates_tensors:
        raise CannotPackError("It has secure sums.")
    return form


def _pack_loop(
    form: tff.backends.mapreduce.MapReduceForm, spec: elements_lib.Spec
) -> tuple[GraphPiece, Callable[..., list[tf.Tensor]]]:
    """Returns the work of a client, and the function of a pack.

    The function takes the flat tensors of a pack, of the context and of the work's `draws`, and
    returns the clients' sums.
    """
    reads_tensors = False

    def rewrite(graph: tf.compat.v1.GraphDef, parameters: list[str]) -> None:
        nonlocal reads_tensors
        reads_tensors = dataset_reads.rewrite(graph, parameters[0], spec)

    work = GraphPiece(form.work, rewrite=rewrite, in_loop=True)
    zero, accumulate = GraphPiece(form.zero), GraphPiece(form.accumulate)
    data, *context_names = work.parameters
    num_sums = len(zero.results)
    num_updates = len(accumulate.parameters) - num_sums
    sum_shapes = [t.shape for t in leaf_types(form.accumulate.type_signature.result)]
    num_leaves = len(tf.nest.flatten(spec))

    def run(*tensors):
        columns, ends = tensors[: 2 * num_leaves], tensors[2 * num_leaves]
        shared = tensors[2 * num_leaves + 1 :]
        leaves = list(zip(columns[::2], columns[1::2], strict=True))
        reader = _Clients(leaves, ends, spec)
        feeds = dict(zip([*context_names, *work.draws], shared, strict=True))
        feeds |= work.make_variables()

        def work_on(client, *sums, shared_results):
            """Adds one client to `sums`. Returns the number of the next client, and the sums."""
            client_leaves = reader.client(client)
            # Clients run one after the other, because they share the variables.
            with tf.control_dependencies(sums):
                client_leaves = [
                    (tf.identity(v), tf.identity(e), tf.identity(s)) for v, e, s in client_leaves
                ]
            inputs = dict(feeds)
            if reads_tensors:
                inputs[data] = dataset_reads.client_as_optional(client_leaves)
            else:
                inputs[data] = tf.data.experimental.to_variant(reader.dataset(client_leaves))
            inputs |= shared_results
            updates = work(inputs)[:num_updates]
            arguments = zip(accumulate.parameters, [*sums, *updates], strict=True)
            return [client + 1, *accumulate(dict(arguments))]

        def loop(body, first, end, sums):
            return tf.while_loop(
                lambda client, *_: client < end,
                body,
                [first, *sums],
                shape_invariants=[tf.TensorShape([]), *map(tf.TensorShape, sum_shapes)],
                parallel_iterations=1,
            )

        def work_on_clients(first, end, sums, results_of):
            """Adds clients `first` to `end` - 1. Returns `end`, and the sums."""

            def body(client, *sums):
                return work_on(client, *sums, shared_results=results_of(client))

            return loop(body, first, end, sums)

        first, end = tf.constant(0), tf.size(ends)
        if work.row_work is None:
            return work_on_clients(first, end, zero({}), lambda client: {})[1:]
        row_groups = RowGroups(work.row_work, leaves, feeds)

        def work_on_group(first, *sums):
            with tf.control_dependencies(sums):
                group = row_groups.group(tf.identity(first))
            return work_on_clients(first, group.end, sums, group.results_of)

        return loop(work_on_group, first, end, zero({}))[1:]

    return work, run


class _Clients:
    """Cuts a pack into its clients.

    A client is, for each leaf of an element, `(values, ends, shapes)`: the values of the whole
    pack, and for each element of the client its end in `values` and its shape.
    """

    def __init__(self, leaves, ends: tf.Tensor, spec: elements_lib.Spec):
        self._leaves = [
            (values, tf.cumsum(tf.reduce_prod(shapes, axis=1)), shapes) for values, shapes in leaves
        ]
        self._ends = ends
        self._starts = tf.concat([tf.zeros([1], ends.dtype), ends[:-1]], 0)
        self._spec, self._leaf_specs = spec, tf.nest.flatten(spec)

    def client(self, index: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Returns the client's `(values, ends, shapes)` of each leaf."""
        rows = slice(self._starts[index], self._ends[index])
        return [(values, ends[rows], shapes[rows]) for values, ends, shapes in self._leaves]

    def dataset(self, client) -> tf.data.Dataset:
        """Returns the elements of a client, as from `client`, as a dataset."""
        ends_and_shapes = tuple((ends, shapes) for _, ends, shapes in client)

        def element(*end_and_shape):
            leaves = [
                elements_lib.slice_of(values, end, shape, spec)
                for (values, *_), (end, shape), spec in zip(
                    client, end_and_shape, self._leaf_specs, strict=True
                )
            ]
            return tf.nest.pack_sequence_as(self._spec, leaves)

        dataset = tf.data.Dataset.from_tensor_slices(ends_and_shapes)
        return elements_lib.as_it_is(dataset.map(element))
