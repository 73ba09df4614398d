"""Packs of any TFF learning process: the bits of TFF's own rounds, and what cannot be packed."""

import collections
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support import fakes
from tff_keyboard.packs import compiler
from tff_keyboard.program.engines import execution

ROUNDS = 2


@pytest.fixture(scope="module")
def contexts():
    """One sub-round on one worker, two on two."""
    with execution.install_context(1) as one, execution.install_context(2) as two:
        yield one.context, two.context


@functools.cache
def both(build):
    """A process and the same in packs: what takes longest here."""
    process = build()
    return process, compiler.PackedProcess(process)


def flat(value):
    return tff.structure.flatten(tff.structure.from_container(value, recursive=True))


@pytest.mark.parametrize(
    "build",
    [fakes.tiny_process, pytest.param(fakes.federated_averaging, marks=pytest.mark.slow)],
)
def test_packs_give_what_sub_rounds_of_the_same_clients_give_to_the_bit(contexts, build):
    process, packed = both(build)
    tff.framework.set_default_context(contexts[1])
    state = process.initialize()
    for round_num in range(1, ROUNDS + 1):
        datasets = fakes.tiny_cohort(round_num, 7).datasets
        clients = [list(dataset.as_numpy_iterator()) for dataset in datasets]
        parts = [clients[:4], clients[4:]]  # as `execution` cuts seven clients into two
        packs = [compiler.make_pack(part, packed.element_spec) for part in parts]
        tff.framework.set_default_context(contexts[1])
        expected = process.next(state, datasets)
        for context in contexts:
            tff.framework.set_default_context(context)
            output = packed.next(state, packs)
            assert type(output) is type(expected)
            assert type(output.state) is type(expected.state)
            for a, b in zip(flat(output), flat(expected), strict=True):
                np.testing.assert_array_equal(a, b)
        state = output.state


def test_the_cut_changes_nothing_but_rounding(contexts):
    _, packed = both(fakes.tiny_process)
    tff.framework.set_default_context(contexts[0])
    clients = [list(d.as_numpy_iterator()) for d in fakes.tiny_cohort(1, 7).datasets]
    results = []
    for cut in ([7], [1] * 7, [2, 4, 1]):
        ends = np.cumsum([0, *cut])
        packs = [
            compiler.make_pack(clients[a:b], packed.element_spec)
            for a, b in itertools.pairwise(ends)
        ]
        results.append(flat(packed.next(packed.initialize(), packs)))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.slow
def test_nobody_and_clients_without_data(contexts):
    _, packed = both(fakes.federated_averaging)
    tff.framework.set_default_context(contexts[0])
    state = packed.initialize()
    for packs in ([], [compiler.make_pack([[], []], packed.element_spec)]):
        output = packed.next(state, packs)
        for a, b in zip(flat(output.state), flat(state), strict=True):
            np.testing.assert_array_equal(a, b)


def test_clients_of_a_pack_start_from_fresh_variables(contexts):
    """A variable that counts the client's batches: were it shared, the sum would be larger."""
    batch_type = collections.OrderedDict(x=tff.TensorType(np.float32, [None]))

    @tff.tensorflow.computation(tff.SequenceType(batch_type))
    def count(data):
        variable = tf.Variable(0, name="batches")

        @tf.function
        def count_all():
            for _ in data:
                variable.assign_add(1)
            return variable.read_value()

        return count_all()

    @tff.federated_computation(
        tff.FederatedType(np.int32, tff.SERVER),
        tff.FederatedType(tff.SequenceType(batch_type), tff.CLIENTS),
    )
    def next_fn(state, data):
        return state, tff.federated_sum(tff.federated_map(count, data))

    tff.framework.set_default_context(contexts[0])
    spec = compiler.element_spec(next_fn)
    batch = collections.OrderedDict(x=np.zeros([2], np.float32))
    packs = [compiler.make_pack([[batch] * n for n in pack], spec) for pack in ([1, 2, 3], [0, 4])]
    state, total = compiler.packed_next(compiler.pack_form(next_fn))(np.int32(5), packs)
    assert (state, total) == (5, 10)


def test_what_does_not_go_into_packs_is_named():
    unknown = tff.SequenceType(tff.TensorType(np.float32, None))
    for client_type in (tff.TensorType(np.float32, [3]), unknown):

        @tff.federated_computation(
            tff.FederatedType(np.int32, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS)
        )
        def next_fn(state, data):
            return state, state

        with pytest.raises(compiler.CannotPackError):
            compiler.packed_next(compiler.pack_form(next_fn))
