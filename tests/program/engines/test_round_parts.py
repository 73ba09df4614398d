"""What travels to a node comes back as it was."""

import pickle

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_keyboard.program.engines import round_parts

STRUCT = tff.structure.Struct([(None, 1), ("a", tff.structure.Struct.named(b=np.arange(3)))])
AT_CLIENTS = tff.FederatedType(np.int32, tff.CLIENTS)
TYPE = tff.to_type([("state", tff.FederatedType(np.int32, tff.SERVER)), ("clients", AT_CLIENTS)])


def test_structs_pickle():
    found = pickle.loads(pickle.dumps(STRUCT))
    assert tff.structure.to_elements(found)[0] == (None, 1)
    np.testing.assert_array_equal(found.a.b, STRUCT.a.b)


@pytest.mark.parametrize("parts", [1, 2, 3, 9])
def test_clients_are_cut_and_filled_in_again(parts):
    template, found = round_parts.cut((7, list(range(5))), TYPE, parts)
    assert len(found) == min(parts, 5)
    filled = [round_parts.fill(pickle.loads(pickle.dumps(template)), part) for part in found]
    assert {argument.state for argument in filled} == {7}
    assert [client for argument in filled for client in argument.clients] == list(range(5))


def test_of_an_empty_round_one_part_is_left():
    template, (part,) = round_parts.cut((7, []), TYPE, 4)
    assert round_parts.fill(template, part).clients == []


class Names(list):
    def __getitem__(self, key):
        return Names(super().__getitem__(key))

    def make(self):
        return [10 * name for name in self]


def test_names_become_clients_where_they_are_filled_in():
    template, found = round_parts.cut((7, Names(range(4))), TYPE, 2)
    assert [len(part[0]) for part in found] == [2, 2]
    assert round_parts.fill(template, found[1]).clients == [20, 30]


def test_a_computation_travels_as_bytes():
    @tff.tensorflow.computation(np.int32)
    def twice(x):
        return 2 * x

    sent = round_parts.PortableComputation(twice)
    found = pickle.loads(pickle.dumps(sent))
    assert found.content == sent.content
    assert pickle.loads(pickle.dumps(sent)) is found  # read from bytes once
    assert found.computation.type_signature.is_equivalent_to(twice.type_signature)
