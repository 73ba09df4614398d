"""A compiler pass: the same learning process, its clients handed over many at a time.

TFF cuts any learning process into the parts of its `MapReduceForm` (prepare, work, zero,
accumulate, merge, report, update). Here `work` and `accumulate` of all clients of a *pack* become
one loop in one TensorFlow graph, and the packs become TFF's clients. Sums, order and bits are those
of TFF's runtime where the clients of a pack are the clients of a sub-round.
"""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.packs import elements as elements_lib
from tff_keyboard.packs.graph_piece import GraphPiece, flat
from tff_keyboard.packs.state_vector import Joined, StateVector, packed_as


class CannotPackError(ValueError):
    """The computation has a form, or client data, that does not go into packs."""


class PackedProcess:
    """A learning process whose `next` takes packs; state, metrics and the rest are the same.

    Not a `tff.learning.templates.LearningProcess`, which insists on datasets. `process` is any
    whose client data is one sequence of tensors (or structures of tensors) of known ranks and whose
    clients return nothing but what is aggregated; the other functions are those of `process`.
    """

    def __init__(self, process: tff.learning.templates.LearningProcess):
        self._compile(pack_form(process.next))
        self._result_type = process.next.type_signature.result
        self.element_spec = element_spec(process.next)
        self.initialize = process.initialize
        self.get_model_weights = process.get_model_weights
        self.set_model_weights = process.set_model_weights
        self.get_hparams = process.get_hparams
        self.set_hparams = process.set_hparams

    def _compile(self, form: "PackForm") -> None:
        inner = packed_next(form)
        self._inner_result = inner.type_signature.result.member
        self._before = StateVector(inner.type_signature.parameter[0].member)
        self._after = StateVector(self._inner_result[0])
        self._next = on_vectors(inner, self._before, self._after)

    def next(self, state: Any, packs: Sequence[Any]) -> Any:
        """One round, see the class."""
        found = self._next(*self._before.join(state), packs)
        after = Joined(found["vector"], list(found["others"]))
        leaves = iter([*self._after.cut(after), *found["rest"]])
        return self._as_python(leaves)

    def _as_python(self, leaves: Iterator[Any]) -> Any:
        """A result in the Python containers that compiling loses."""
        packed = packed_as(self._inner_result, leaves)
        return tff.types.type_to_py_container(packed, self._result_type)


class ThreeCallProcess(PackedProcess):
    """A `PackedProcess` in three calls, with the same results: clients are sent what they need.

    The server prepares what clients need (weights, learning rates, limits), the clients come to
    their total, the server updates its state with it: momentum, noise and counters never leave it.
    Worth it where sending costs more than two calls: on a cluster.
    """

    def _compile(self, form: "PackForm") -> None:
        self._form = form.map_reduce
        self._total = form.total_of_context()

    def next(self, state: Any, packs: Sequence[Any]) -> Any:
        """One round."""
        total = self._total(self._form.prepare(state), packs)
        output = self._form.update(state, (total, (), (), ()))  # no secure sums: three times ()
        found = tff.structure.from_container(output, recursive=True)
        return tff.types.type_to_py_container(found, self._result_type)


def make_pack(clients: Sequence[Sequence[Any]], spec: elements_lib.Spec) -> collections.OrderedDict:
    """The clients of a pack as the tensors that `packed_next` takes; NumPy."""
    joined = elements_lib.join([element for client in clients for element in client], spec)
    pairs = elements_lib.leaves(joined)
    leaves = [collections.OrderedDict(values=values, shapes=shapes) for values, shapes in pairs]
    ends = np.cumsum([len(client) for client in clients], dtype=np.int64)
    return collections.OrderedDict(leaves=leaves, ends=ends)


def pack_type(spec: elements_lib.Spec) -> tff.Type:
    """Type of what `make_pack` returns, with `ends` as int64 [clients]: where each client's
    elements end."""
    leaves = [
        collections.OrderedDict(
            values=tff.TensorType(leaf.dtype.as_numpy_dtype, [None]),
            shapes=tff.TensorType(np.int64, [None, leaf.shape.rank]),
        )
        for leaf in tf.nest.flatten(spec)
    ]
    ends = tff.TensorType(np.int64, [None])
    return tff.to_type(collections.OrderedDict(leaves=leaves, ends=ends))


def element_spec(next_computation: tff.Computation) -> elements_lib.Spec:
    """Spec of an element of the clients' sequences.

    A `CannotPackError` if they hold anything but one sequence of tensors of known ranks.
    """
    data_type = next_computation.type_signature.parameter[1]
    member = getattr(data_type, "member", None)
    if not isinstance(member, tff.SequenceType):
        raise CannotPackError(f"Packs are of clients that hold one sequence, got {data_type}.")
    spec = tff.types.type_to_tf_tensor_specs(member.element)
    try:
        elements_lib.joined_spec(spec)
    except ValueError as error:
        raise CannotPackError(str(error)) from error
    return spec


class PackForm(NamedTuple):
    """What a learning process is made of, its clients in packs."""

    map_reduce: tff.backends.mapreduce.MapReduceForm
    run_pack: tff.Computation  # `(pack, what `prepare` gave) -> sums` of the pack's clients
    client_type: tff.Type

    def total(self, packs: tff.Value, context: tff.Value) -> tff.Value:
        """Within a federated computation: what the round comes to, at the server."""
        form = self.map_reduce
        sums = tff.federated_map(self.run_pack, (packs, tff.federated_broadcast(context)))
        return tff.federated_aggregate(sums, form.zero(), form.merge, form.merge, form.report)

    def total_of_context(self) -> tff.Computation:
        """`total` as a computation: `(context@SERVER, {pack}@CLIENTS)`."""
        context_type = self.map_reduce.prepare.type_signature.result

        @tff.federated_computation(
            tff.FederatedType(context_type, tff.SERVER),
            tff.FederatedType(self.client_type, tff.CLIENTS),
        )
        def total(context, packs):
            return self.total(packs, context)

        return total


def pack_form(next_computation: tff.Computation) -> PackForm:
    """Takes a learning process apart.

    `next_computation` is `(state@SERVER, {sequence}@CLIENTS) -> (state, ...)@SERVER`, its
    aggregations independent of one another.
    """
    spec = element_spec(next_computation)
    config = tf.compat.v1.ConfigProto()  # grappler runs where the pack does, once, on all of it
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    try:
        form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
            next_computation, grappler_config=config
        )
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CannotPackError(f"TFF finds no MapReduceForm of it: {reason}") from error
    run = _pack_loop(form, spec)
    client_type = pack_type(spec)
    accumulator_type = form.accumulate.type_signature.result  # that of `zero` may be narrower

    @tff.tensorflow.computation(client_type, form.prepare.type_signature.result)
    def run_pack(pack, context):
        leaves = [(leaf["values"], leaf["shapes"]) for leaf in pack["leaves"]]
        return packed_as(accumulator_type, iter(run(leaves, pack["ends"], flat(context))))

    return PackForm(form, run_pack, client_type)


def packed_next(form: PackForm) -> tff.Computation:
    """`(state@SERVER, {pack}@CLIENTS)` to what the process gives, as plain structures."""
    state_type = form.map_reduce.type_signature.parameter[0]

    @tff.federated_computation(state_type, tff.FederatedType(form.client_type, tff.CLIENTS))
    def next_fn(state, packs):
        total = form.total(packs, tff.federated_map(form.map_reduce.prepare, state))
        empty = tff.federated_value((), tff.SERVER)  # of the secure sums, which there are none of
        return tff.federated_map(form.map_reduce.update, (state, (total, empty, empty, empty)))

    return next_fn


def on_vectors(inner: tff.Computation, before: StateVector, after: StateVector) -> tff.Computation:
    """`inner` on vectors: `(vector, others, packs) -> {vector, others, rest}`.

    `inner` is a function of the arguments of `before`, at the server, and of packs; `after` is the
    vector of the first leaves of its result, and `rest` are those behind them.
    """
    _, packs_type = inner.type_signature.parameter

    @tff.tensorflow.computation(*before.type)
    def cut(vector, others):
        return before.cut_tensors(Joined(vector, flat(others)))

    @tff.tensorflow.computation(inner.type_signature.result.member)
    def join(result):
        leaves = flat(result)
        vector, others = after.join_tensors(leaves[: after.num_leaves])
        rest = leaves[after.num_leaves :]
        return collections.OrderedDict(vector=vector, others=others, rest=rest)

    vector_type, others_type = (tff.FederatedType(t, tff.SERVER) for t in before.type)

    @tff.federated_computation(vector_type, others_type, packs_type)
    def next_fn(vector, others, packs):
        argument = tff.federated_map(cut, (vector, others))
        return tff.federated_map(join, inner(argument, packs))

    return next_fn


def _pack_loop(form: tff.backends.mapreduce.MapReduceForm, spec: elements_lib.Spec) -> Callable:
    """`(leaves, ends, context) -> sums` of all clients, flat tensors, in any graph."""
    work, zero, accumulate = (GraphPiece(p) for p in (form.work, form.zero, form.accumulate))
    data, *context_names = work.parameters
    num_sums = len(zero.results)
    num_updates = len(accumulate.parameters) - num_sums
    sum_shapes = [t.shape for t in tff.structure.flatten(form.accumulate.type_signature.result)]

    def run(leaves, ends, context):
        reader = _Clients(leaves, ends, spec)
        feeds = dict(zip(context_names, context, strict=True)) | work.make_variables()

        def work_on(client, *sums):
            own = reader.client(client)
            # One client after the other, whatever the data depends on: they share the variables.
            with tf.control_dependencies(sums):
                own = [(tf.identity(v), tf.identity(e), tf.identity(s)) for v, e, s in own]
            inputs = dict(feeds)
            for names in work.single_elements.get(data, []):
                inputs |= zip(names, reader.single_element(own), strict=True)
            if work.needs_dataset(data):
                inputs[data] = tf.data.experimental.to_variant(reader.dataset(own))
            updates = work(inputs)[:num_updates]
            arguments = zip(accumulate.parameters, [*sums, *updates], strict=True)
            return [client + 1, *accumulate(dict(arguments))]

        return tf.while_loop(
            lambda client, *_: client < tf.size(ends),
            work_on,
            [tf.constant(0), *zero({})],
            shape_invariants=[tf.TensorShape([]), *map(tf.TensorShape, sum_shapes)],
            parallel_iterations=1,
        )[1:]

    return run


class _Clients:
    """Cuts a pack into its clients.

    A client is, for each leaf of an element, `(values, ends, shapes)`: the values of the whole
    pack, and of each of its own elements where it ends therein and its shape.
    """

    def __init__(self, leaves, ends: tf.Tensor, spec: elements_lib.Spec):
        self._leaves = [
            (values, tf.cumsum(tf.reduce_prod(shapes, axis=1)), shapes) for values, shapes in leaves
        ]
        self._ends = ends
        self._starts = tf.concat([tf.zeros([1], ends.dtype), ends[:-1]], 0)
        self._spec, self._leaf_specs = spec, tf.nest.flatten(spec)

    def client(self, index: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        own = slice(self._starts[index], self._ends[index])
        return [(values, ends[own], shapes[own]) for values, ends, shapes in self._leaves]

    def single_element(self, client) -> list[tf.Tensor]:
        """The leaves of the client's only element, in the order of datasets (`tf.nest`)."""
        return [
            elements_lib.slice_of(values, ends[0], shapes[0], spec)
            for (values, ends, shapes), spec in zip(client, self._leaf_specs, strict=True)
        ]

    def dataset(self, client) -> tf.data.Dataset:
        places = tuple((ends, shapes) for _, ends, shapes in client)

        def element(*places):
            leaves = [
                elements_lib.slice_of(values, end, shape, spec)
                for (values, *_), (end, shape), spec in zip(
                    client, places, self._leaf_specs, strict=True
                )
            ]
            return tf.nest.pack_sequence_as(self._spec, leaves)

        dataset = tf.data.Dataset.from_tensor_slices(places)
        return elements_lib.as_it_is(dataset.map(element))
