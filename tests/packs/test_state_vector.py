"""Joining and cutting change no bit, in NumPy and in graphs, whatever the structure."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.packs.graph_piece import flat
from tff_keyboard.packs.state_vector import Joined, StateVector

STRUCTURE = collections.OrderedDict(
    weights=(np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([[-0.0], [np.nan]])),
    rounds=np.int32(7),
    rate=np.float32(0.25),
    empty=[],
    momentum=[np.float32([1e-45, np.inf])],
    seed=np.int64([1, 2]),
    nothing=np.zeros([0, 4], np.float32),
)
TYPE = tff.to_type(
    collections.OrderedDict(
        weights=((np.float32, [2, 3]), (np.float32, [2, 1])),
        rounds=np.int32,
        rate=np.float32,
        empty=[],
        momentum=[(np.float32, [2])],
        seed=(np.int64, [2]),
        nothing=(np.float32, [0, 4]),
    )
)


def leaves(structure):
    return tff.structure.flatten(tff.structure.from_container(structure, recursive=True))


def packed(values):
    structure = tff.structure.from_container(STRUCTURE, recursive=True)
    return tff.structure.pack_sequence_as(structure, values)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


def test_arrays_of_float32_are_one_vector_and_the_rest_stays():
    state = StateVector(TYPE)
    joined = state.join(STRUCTURE)
    assert joined.vector.tobytes() == b"".join(
        leaf.tobytes() for leaf in leaves(STRUCTURE) if leaf.dtype == np.float32 and leaf.ndim
    )
    assert [leaf.dtype for leaf in joined.others] == [np.int32, np.float32, np.int64]
    assert_same(state.cut(joined), leaves(STRUCTURE))


def test_in_a_graph():
    state = StateVector(TYPE)

    @tff.tensorflow.computation(*state.type)
    def cut(vector, others):
        return state.cut_tensors(Joined(vector, flat(others)))

    @tff.tensorflow.computation(TYPE)
    def join(structure):
        vector, others = state.join_tensors(flat(structure))
        return collections.OrderedDict(vector=vector, others=others)

    assert_same(leaves(cut(*state.join(STRUCTURE))), leaves(STRUCTURE))
    found = join(STRUCTURE)
    assert_same(
        [found["vector"], *found["others"]],
        [*state.join(STRUCTURE)[:1], *state.join(STRUCTURE).others],
    )
    assert cut.type_signature.result.is_equivalent_to(TYPE)


def test_what_was_cut_is_joined_without_a_copy():
    state = StateVector(TYPE)
    parts = state.cut(state.join(STRUCTURE))
    again = tff.structure.pack_sequence_as(
        tff.structure.from_container(STRUCTURE, recursive=True), parts
    )
    first = parts[0].base
    assert state.join(again).vector is first
    assert_same(state.cut(state.join(again)), leaves(STRUCTURE))


@pytest.mark.parametrize("place", [0, 1, 4])
def test_what_was_changed_since_is_copied(place):
    state = StateVector(TYPE)
    parts = state.cut(state.join(STRUCTURE))
    changed = list(parts)
    changed[place] = parts[place] + np.float32(1)
    again = tff.structure.pack_sequence_as(
        tff.structure.from_container(STRUCTURE, recursive=True), changed
    )
    assert_same(state.cut(state.join(again)), changed)


def test_parts_in_another_order_are_copied():
    state = StateVector(tff.to_type([(np.float32, [2]), (np.float32, [2])]))
    one, two = state.cut(state.join([np.float32([1, 2]), np.float32([3, 4])]))
    assert_same([state.join([two, one]).vector], [np.float32([3, 4, 1, 2])])


@pytest.mark.parametrize(
    "type_spec", [tff.to_type([]), tff.to_type([np.int32]), tff.to_type(np.int32)]
)
def test_nothing_to_join(type_spec):
    state = StateVector(type_spec)
    structure = [np.int32(3)] if state.type.others else []
    joined = state.join(structure)
    assert joined.vector.shape == (0,)
    assert_same(state.cut(joined), structure)

    @tff.tensorflow.computation(*state.type)
    def cut(vector, others):
        return state.cut_tensors(Joined(vector, flat(others)))

    assert cut.type_signature.result.is_equivalent_to(type_spec)


def test_shapes_that_are_not_known_stay_apart():
    state = StateVector(tff.to_type([(np.float32, [None, 2]), (np.float32, [2])]))
    structure = [np.ones([3, 2], np.float32), np.float32([1, 2])]
    joined = state.join(structure)
    assert_same([joined.vector, *joined.others], [structure[1], structure[0]])
    assert tf.TensorShape(state.type.vector.shape) == [2]
