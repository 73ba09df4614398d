"""Rounds whose server is this process: the bits of a worker, and which servers stay there."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.packs import compiler, server_here
from tff_keyboard.program.engines import execution

SIZE = 10_007  # larger than a piece of work of one thread, and no multiple of a vector's length


def adam(state, delta):
    rounds = state["rounds"] + 1
    first = 0.9 * state["first"] + 0.1 * delta
    second = 0.99 * state["second"] + 0.01 * tf.square(delta)
    scale = tf.sqrt(1 - tf.pow(0.99, rounds)) / (1 - tf.pow(0.9, rounds))
    return collections.OrderedDict(
        weights=state["weights"] + 0.1 * scale * first / (tf.sqrt(second) + 1e-5),
        first=first,
        second=second,
        rounds=rounds,
    )


def of_unit_length(state, delta):
    """Divides by the square root of a sum over all weights."""
    return adam(state, delta / tf.sqrt(tf.reduce_sum(tf.square(delta))))


def noised(state, delta):
    return adam(state, delta + tf.random.normal([SIZE], seed=7))


def process_of(update):
    """A learning process; a client sends the sum of its vectors, times exp(weights)."""
    vector = tff.TensorType(np.float32, [SIZE])
    state_type = tff.to_type(
        collections.OrderedDict(weights=vector, first=vector, second=vector, rounds=np.float32)
    )
    data_type = tff.SequenceType(
        collections.OrderedDict(x=tff.TensorType(np.float32, [None, SIZE]))
    )

    @tff.tensorflow.computation
    def initial():
        zeros = tf.zeros([SIZE])
        return collections.OrderedDict(
            weights=tf.linspace(-1.0, 1.0, SIZE), first=zeros, second=zeros, rounds=0.0
        )

    @tff.tensorflow.computation(vector, data_type)
    def work(weights, data):
        total = data.reduce(tf.zeros([SIZE]), lambda all_, e: all_ + tf.reduce_sum(e["x"], 0))
        return total * tf.exp(weights)

    @tff.tensorflow.computation(state_type, vector)
    def update_server(state, delta):
        return update(state, delta)

    @tff.federated_computation
    def initialize():
        return tff.federated_eval(initial, tff.SERVER)

    @tff.federated_computation(
        tff.FederatedType(state_type, tff.SERVER), tff.FederatedType(data_type, tff.CLIENTS)
    )
    def next_fn(state, data):
        sent = tff.federated_map(work, (tff.federated_broadcast(state["weights"]), data))
        after = tff.federated_map(update_server, (state, tff.federated_sum(sent)))
        nothing = tff.federated_value((), tff.SERVER)
        return tff.learning.templates.LearningProcessOutput(after, nothing)

    @tff.tensorflow.computation(state_type)
    def get_model_weights(state):
        return state["weights"]

    @tff.tensorflow.computation(state_type, vector)
    def set_model_weights(state, weights):
        return state

    return tff.learning.templates.LearningProcess(
        initialize, next_fn, get_model_weights, set_model_weights
    )


class Listener(tff.framework.SyncContext):
    """A context that counts the bytes of arrays it is given and gives."""

    def __init__(self, inner):
        self.inner = inner
        self.bytes = 0

    def invoke(self, comp, arg):
        result = self.inner.invoke(comp, arg)
        self.bytes += sum(map(size, (arg, result)))
        return result


def size(value):
    """Bytes of the arrays of a value."""
    leaves = tff.structure.flatten(tff.structure.from_container((value,), recursive=True))
    return sum(np.asarray(leaf).nbytes for leaf in leaves if isinstance(leaf, np.ndarray))


@pytest.fixture(scope="module")
def context():
    with execution.install_context(1) as installed:
        yield installed.context


def packs_of(process, round_num):
    rng = np.random.default_rng(round_num)
    clients = [
        [collections.OrderedDict(x=rng.normal(size=[n, SIZE]).astype(np.float32))]
        for n in (1, 3, 2)
    ]
    return [compiler.make_pack(part, process.element_spec) for part in (clients[:2], clients[2:])]


def rounds_of(process, num=4):
    state = process.initialize()
    for round_num in range(num):
        output = process.next(state, packs_of(process, round_num))
        state = output.state
    return output


@pytest.mark.parametrize(("update", "is_here"), [(adam, True), (of_unit_length, False)])
def test_the_server_is_here_where_it_has_the_bits_of_a_worker(context, update, is_here):
    tff.framework.set_default_context(context)
    process = process_of(update)
    here = server_here.ServerHereProcess(process)
    assert here.is_server_here == is_here
    found, expected = rounds_of(here), rounds_of(compiler.PackedProcess(process))
    assert type(found) is type(expected)
    assert type(found.state) is type(expected.state)
    for name, value in found.state.items():
        np.testing.assert_array_equal(value, expected.state[name])
    assert found.state["rounds"] == 4
    assert np.any(found.state["weights"] != np.linspace(-1, 1, SIZE, dtype=np.float32))


def test_a_server_that_draws_stays_in_the_worker():
    assert not server_here.ServerHereProcess(process_of(noised)).is_server_here


def test_moments_are_not_sent(context):
    process = process_of(adam)
    sent = {}
    for build in (server_here.ServerHereProcess, compiler.PackedProcess):
        listener = Listener(context)
        tff.framework.set_default_context(listener)
        packed = build(process)
        state, packs = process.initialize(), packs_of(packed, 1)
        listener.bytes = 0
        packed.next(state, packs)
        sent[build] = listener.bytes - size(packs)
    vector = 4 * SIZE
    # There weights and moments, to and fro; here the weights, and the clients' sum back.
    assert sent[compiler.PackedProcess] == pytest.approx(6 * vector, rel=0.01)
    assert sent[server_here.ServerHereProcess] == pytest.approx(2 * vector, rel=0.01)
