"""Packs of any TFF learning process: the results of TFF's own rounds, whatever the cut."""

import collections
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support import fakes
from tff_keyboard.algorithms.client_packing import round_form
from tff_keyboard.algorithms.client_packing.round_form import CannotPackError, RoundForm, make_pack
from tff_keyboard.algorithms.rounds.packed import PackedProcess
from tff_keyboard.execution.engine import LocalEngine

ROUNDS = 2


@functools.cache
def both(build):
    """A process and the same in packs: what takes longest here."""
    process = build()
    return process, PackedProcess(process)


def flat(value):
    return tff.structure.flatten(tff.structure.from_container(value, recursive=True))


def tiny_clients(round_num):
    datasets = fakes.tiny_cohort(round_num, 7).datasets
    return datasets, [list(dataset.as_numpy_iterator()) for dataset in datasets]


def packs_of(clients, cut, spec):
    ends = np.cumsum([0, *cut])
    return [make_pack(clients[a:b], spec) for a, b in itertools.pairwise(ends)]


@pytest.mark.slow
@pytest.mark.parametrize("build", [fakes.tiny_process, fakes.federated_averaging])
def test_rounds_equal_stock_tff(stock_tff, build):
    process, packed = both(build)
    state = packed.initialize()
    for round_num in range(1, ROUNDS + 1):
        datasets, clients = tiny_clients(round_num)
        with stock_tff():
            expected = process.next(state, datasets)
        output = packed.next(state, packs_of(clients, [4, 3], packed.element_spec))
        assert type(output) is type(expected)
        assert type(output.state) is type(expected.state)
        for a, b in zip(flat(output), flat(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
        state = output.state


def test_the_cut_changes_nothing_but_rounding():
    _, packed = both(fakes.tiny_process)
    _, clients = tiny_clients(1)
    results = [
        flat(packed.next(packed.initialize(), packs_of(clients, cut, packed.element_spec)))
        for cut in ([7], [1] * 7, [2, 4, 1])
    ]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_number_of_threads_changes_no_bit():
    _, clients = tiny_clients(1)
    results = []
    for threads in (1, 2, 5):
        with LocalEngine(threads) as engine:
            packed = PackedProcess(fakes.tiny_process(), engine)
            packs = packs_of(clients, [1] * 7, packed.element_spec)
            results.append(flat(packed.next(packed.initialize(), packs)))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_no_clients_and_clients_without_data():
    _, packed = both(fakes.federated_averaging)
    state = packed.initialize()
    for packs in ([], [make_pack([[], []], packed.element_spec)]):
        output = packed.next(state, packs)
        for a, b in zip(flat(output.state), flat(state), strict=True):
            np.testing.assert_array_equal(a, b)


def test_clients_of_a_pack_start_from_fresh_variables():
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

    form = RoundForm(next_fn)
    batch = collections.OrderedDict(x=np.zeros([2], np.float32))
    packs = [make_pack([[batch] * n for n in p], form.element_spec) for p in ([1, 2, 3], [0, 4])]
    with LocalEngine(2) as engine:
        assert tuple(form(engine, [np.int32(5)], packs)) == (5, 10)


def test_error_of_a_client_is_raised_and_the_next_round_works():
    _, packed = both(fakes.tiny_process)
    _, clients = tiny_clients(1)
    packs = packs_of(clients, [3, 4], packed.element_spec)

    class Missing:
        def make(self):
            raise FileNotFoundError("store")

    with pytest.raises(FileNotFoundError, match="store"):
        packed.next(packed.initialize(), [packs[0], Missing(), *packs])
    expected = packed.next(packed.initialize(), packs)

    class Made:
        def make(self):
            return packs[1]

    for a, b in zip(
        flat(packed.next(packed.initialize(), [packs[0], Made()])), flat(expected), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_time_of_aggregation_is_returned_once():
    _, packed = both(fakes.tiny_process)
    packed.pop_aggregation_seconds()
    _, clients = tiny_clients(1)
    packed.next(packed.initialize(), packs_of(clients, [3, 4], packed.element_spec))
    assert packed.pop_aggregation_seconds() > 0
    assert packed.pop_aggregation_seconds() == 0


def test_error_names_the_reason_against_packs():
    state = tff.FederatedType(np.int32, tff.SERVER)
    unknown = tff.FederatedType(tff.SequenceType(tff.TensorType(np.float32, None)), tff.CLIENTS)
    same = tff.FederatedType(np.float32, tff.CLIENTS, all_equal=True)
    both_kinds = tff.FederatedType([np.float32, tff.SequenceType(np.float32)], tff.CLIENTS)
    for client_type, reason in [
        (unknown, "rank"),
        (same, "same value"),
        (both_kinds, "one sequence or only tensors"),
        (state, "at clients"),
        (tff.to_type(np.int32), "at the server or at clients"),
    ]:

        @tff.federated_computation(state, client_type)
        def next_fn(state, data):
            return state, state

        with pytest.raises(CannotPackError, match=reason):
            RoundForm(next_fn)


def test_broadcast_must_not_depend_on_an_aggregate():
    @tff.federated_computation(
        tff.FederatedType(np.float32, tff.SERVER), tff.FederatedType(np.float32, tff.CLIENTS)
    )
    def next_fn(state, data):
        mean = tff.federated_broadcast(tff.federated_mean(data))
        return state, tff.federated_sum(tff.federated_zip([mean, data]))

    with pytest.raises(CannotPackError, match="MapReduceForm"):
        RoundForm(next_fn)


def test_a_process_without_sequences_is_no_packed_process():
    state = tff.FederatedType(np.float32, tff.SERVER)
    clients = tff.FederatedType(np.float32, tff.CLIENTS)

    @tff.federated_computation(state, clients)
    def next_fn(state, data):
        return state, tff.federated_sum(data)

    class Process:
        next = next_fn

    with pytest.raises(CannotPackError, match="no sequences"):
        PackedProcess(Process())


def test_pack_matches_its_specs():
    spec = collections.OrderedDict(x=tf.TensorSpec([None, 2], tf.int32))
    element = collections.OrderedDict(x=np.zeros([3, 2], np.int32))
    pack = make_pack([[element], [], [element, element]], spec)
    tensors = [array for leaf in pack["leaves"] for array in leaf.values()] + [pack["ends"]]
    for tensor, tensor_spec in zip(tensors, round_form.pack_specs(spec), strict=True):
        assert tensor_spec.is_compatible_with(tf.constant(tensor))
    assert pack["ends"].tolist() == [1, 1, 3]
