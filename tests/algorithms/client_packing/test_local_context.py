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

SERVER, CLIENTS = (tff.FederatedType(np.float32, p) for p in (tff.SERVER, tff.CLIENTS))


@pytest.fixture
def context(monkeypatch):
    """A context that refuses to start TFF's own."""

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


def test_unsupported_computations_go_to_tff(monkeypatch):
    asked = []
    monkeypatch.setattr(LocalContext, "_run_natively", lambda self, comp, arg: asked.append(arg))
    tff.framework.set_default_context(LocalContext())
    doubled = tff.tensorflow.computation(lambda x: 2 * x, np.float32)

    @tff.federated_computation(CLIENTS)
    def at_clients(values):
        return tff.federated_map(doubled, values)

    @tff.tensorflow.computation(tff.SequenceType(np.float32))
    def total(values):
        return values.reduce(0.0, lambda a, b: a + b)

    at_clients([1.0, 2.0])
    total([1.0, 2.0])
    session_context.use()
    assert asked == [[1.0, 2.0], [1.0, 2.0]]


@pytest.mark.slow
def test_tff_runs_unsupported_computations():
    doubled = tff.tensorflow.computation(lambda x: 2 * x, np.float32)

    @tff.federated_computation(CLIENTS)
    def at_clients(values):
        return tff.federated_map(doubled, values)

    context = LocalContext()
    assert context.invoke(at_clients, [1.0, 2.0]) == [2.0, 4.0]
    del context
    gc.collect()  # the server ends with it


def test_it_is_the_default_of_the_thread_that_asks():
    context = local_context.local_context(threads=1)
    try:
        assert tff.framework.get_context_stack().current is context
    finally:
        session_context.use()
    with pytest.raises(ValueError, match="`threads` must be >= 0, got -1"):
        local_context.local_context(threads=-1)
