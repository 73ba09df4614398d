"""TFF's computations in this process, and what goes to TFF's own runtime instead."""

import collections
import gc

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support import fakes, session_context
from tff_keyboard.algorithms.client_packing import local_context
from tff_keyboard.algorithms.client_packing.local_context import LocalContext
from tff_keyboard.algorithms.client_packing.round_form import CannotPackError
from tff_keyboard.data import batches

SERVER, CLIENTS = (tff.FederatedType(np.float32, p) for p in (tff.SERVER, tff.CLIENTS))


@pytest.fixture
def context(monkeypatch):
    """A context that fails if TFF's own would start."""

    def refuse(self, comp, arg):
        raise AssertionError("it went to TFF's own runtime")

    monkeypatch.setattr(LocalContext, "_run_natively", refuse)
    context = LocalContext()
    tff.framework.set_default_context(context)
    yield context
    session_context.use()


@pytest.mark.usefixtures("context")
def test_tensorflow_computations_keep_their_containers():
    pair = collections.namedtuple("Pair", "first second")

    @tff.tensorflow.computation(tff.StructWithPythonType([("b", np.int32), ("a", np.int32)], dict))
    def swap(values):
        return pair(values["a"], [values["b"], tf.constant("text")])

    found = swap({"b": 1, "a": 2})
    assert type(found) is pair
    assert found.first == 2
    assert found.second == [1, b"text"]


@pytest.mark.usefixtures("context")
def test_a_list_for_a_tensor_is_one_leaf():
    @tff.tensorflow.computation((np.int32, [3]), np.int32)
    def add(vector, number):
        return vector + number

    assert add([1, 2, 3], 4).tolist() == [5, 6, 7]


@pytest.mark.usefixtures("context")
def test_variables_start_afresh_at_each_call():
    @tff.tensorflow.computation(np.int32)
    def count(number):
        variable = tf.Variable(10)
        with tf.control_dependencies([variable.assign_add(number)]):
            return variable.read_value()

    assert [count(1), count(2), count(1)] == [11, 12, 11]


@pytest.mark.usefixtures("context")
def test_aggregations_of_several_values():
    @tff.federated_computation(CLIENTS, SERVER, CLIENTS)
    def weighted(values, offset, weights):
        mean = tff.federated_mean(values, weights)
        return collections.OrderedDict(mean=mean, offset=offset, n=tff.federated_sum(weights))

    found = weighted([1.0, 2.0, 4.0], 7.0, [1.0, 1.0, 2.0])
    assert dict(found) == {"mean": 2.75, "offset": 7.0, "n": 4.0}
    assert type(found) is collections.OrderedDict


@pytest.mark.usefixtures("context")
def test_sum_without_clients_is_zero():
    @tff.federated_computation(CLIENTS)
    def total(values):
        return tff.federated_sum(values)

    assert total([]) == 0.0
    assert total([1.0, 2.0]) == 3.0


@pytest.mark.usefixtures("context")
def test_a_learning_process_with_a_dataset_for_each_client():
    process = fakes.tiny_process()
    state = process.initialize()
    output = process.next(state, fakes.tiny_cohort(1, 20).datasets)  # more than packs
    assert np.abs(output.state["weights"]).sum() > 0


@pytest.mark.usefixtures("context")
def test_clients_keep_their_order_and_their_elements():
    """Datasets that are read by several threads, datasets of known elements, and lists."""

    @tff.tensorflow.computation(tff.SequenceType(np.int32))
    def first_and_sum(data):
        total = data.reduce(tf.constant(0), lambda a, b: a + b)
        return 1000 * total + data.take(1).reduce(tf.constant(0), lambda a, b: b)

    @tff.federated_computation(tff.FederatedType(tff.SequenceType(np.int32), tff.CLIENTS))
    def largest(clients):
        values = tff.federated_map(first_and_sum, clients)
        return tff.federated_min(values), tff.federated_max(values), tff.federated_sum(values)

    sizes = [*range(1, 30)]
    values = [np.arange(size, 2 * size, dtype=np.int32) for size in sizes]
    datasets = [tf.data.Dataset.from_tensor_slices(v).map(lambda x: x) for v in values]
    expected = [1000 * int(v.sum()) + int(v[0]) for v in values]
    for clients in (datasets, [v.tolist() for v in values], [datasets[0], *values[1:]]):
        assert list(largest(clients)) == [min(expected), max(expected), sum(expected)]


@pytest.mark.usefixtures("context")
def test_datasets_of_batches_are_read_without_an_iterator(monkeypatch):
    matrix = tff.TensorType(np.int32, [None, None])
    spec = tff.StructWithPythonType([("x", matrix), ("y", matrix)], collections.OrderedDict)

    @tff.tensorflow.computation(tff.SequenceType(spec))
    def total(data):
        return data.reduce(tf.constant(0), lambda a, b: a + tf.reduce_sum(b["x"]))

    @tff.federated_computation(tff.FederatedType(tff.SequenceType(spec), tff.CLIENTS))
    def over_clients(clients):
        return tff.federated_sum(tff.federated_map(total, clients))

    clients = [[np.array([[4, 5, 6]], np.int32)], [np.array([[7, 8]], np.int32)] * 2]
    datasets = [batches.batches_dataset(client) for client in clients]

    def fail(self):
        raise AssertionError("it has an iterator")

    monkeypatch.setattr(tf.data.Dataset, "as_numpy_iterator", fail)
    assert over_clients(datasets) == 4 + 5 + 7 + 7


DOUBLED = tff.tensorflow.computation(lambda x: 2 * x, np.float32)


@tff.federated_computation(CLIENTS)
def at_clients(values):
    return tff.federated_map(DOUBLED, values)


@tff.tensorflow.computation(tff.SequenceType(np.float32))
def of_sequence(values):
    return values.reduce(0.0, lambda a, b: a + b)


@tff.federated_computation(np.float32)
def of_operators(value):
    return value, value


@tff.federated_computation
def value_at_clients():
    return tff.federated_value(1.0, tff.CLIENTS)


@tff.federated_computation(CLIENTS)
def broadcast_after_mean(values):
    pairs = values, tff.federated_broadcast(tff.federated_mean(values))
    types = (np.float32, np.float32)
    return tff.federated_mean(
        tff.federated_map(tff.tensorflow.computation(lambda a, b: a - b, types), pairs)
    )


UNSUPPORTED = {
    "at clients": (at_clients, [1.0, 2.0], "TFF finds no MapReduceForm"),
    "sequence": (of_sequence, [1.0, 2.0], "Its leaves must be tensors"),
    "operators": (of_operators, 1.0, "not a `tff.tensorflow.computation`"),
    "no argument": (value_at_clients, None, "must be one value at the server"),
    "two broadcasts": (broadcast_after_mean, [1.0, 2.0], "TFF finds no MapReduceForm"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.usefixtures("context")
def test_unsupported_computations_are_one_line(name):
    """They raise, and never start TFF's server (`context` would fail)."""
    computation, argument, reason = UNSUPPORTED[name]
    arguments = [] if argument is None else [argument]
    for _ in range(2):
        with pytest.raises(CannotPackError, match=reason) as caught:
            computation(*arguments)
        assert "Pass `allow_tff_server=True`" in str(caught.value)
        assert "without a password" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_computations_go_to_tff_if_allowed(name, monkeypatch):
    asked = []
    monkeypatch.setattr(LocalContext, "_run_natively", lambda self, comp, arg: asked.append(comp))
    context = LocalContext(allow_tff_server=True)
    computation, argument, _ = UNSUPPORTED[name]
    for _ in range(2):
        context.invoke(computation, argument)
    assert asked == [computation, computation]


@pytest.mark.parametrize("error", [TypeError("of a user"), ValueError("of a user")])
@pytest.mark.parametrize("allow_tff_server", [False, True])
def test_other_errors_are_passed_on(error, allow_tff_server, monkeypatch):
    """An error while a computation is compiled is not a reason to start a server."""

    def fail(*unused):
        raise error

    monkeypatch.setattr(local_context, "RoundForm", fail)
    monkeypatch.setattr(LocalContext, "_run_natively", fail)
    context = LocalContext(allow_tff_server=allow_tff_server)
    with pytest.raises(type(error), match=r"^of a user$"):
        context.invoke(at_clients, [1.0, 2.0])


def test_wrong_arguments_keep_their_message(context):
    @tff.tensorflow.computation(np.float32)
    def half(value):
        return value / 2

    with pytest.raises(TypeError) as caught:
        half("text", "more")
    assert "allow_tff_server" not in str(caught.value)


@pytest.mark.slow
def test_tff_runs_unsupported_computations():
    context = LocalContext(allow_tff_server=True)
    assert context.invoke(at_clients, [1.0, 2.0]) == [2.0, 4.0]
    del context
    gc.collect()  # the server ends with it


def test_a_part_of_a_program_has_another_context():
    context = LocalContext()
    stack = tff.framework.get_context_stack()
    before = stack.current
    with stack.install(context):
        assert stack.current is context
        assert DOUBLED(3.0) == 6.0
    assert stack.current is before


def test_it_is_the_default_of_the_thread_that_asks():
    context = local_context.local_context(threads=1)
    try:
        assert tff.framework.get_context_stack().current is context
    finally:
        session_context.use()
    with pytest.raises(ValueError, match="`threads` must be >= 0, got -1"):
        local_context.local_context(threads=-1)
