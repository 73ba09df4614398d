"""Graphs as functions of arrays: in threads, through pickle, and closed while they run."""

import pickle
import threading
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.execution.graph_function import GraphFunction, leaves_of, pack_as, tensor_specs


def squares():
    return GraphFunction.trace(
        lambda x, y: [x * x, x, y], [tf.TensorSpec([None]), tf.TensorSpec([], tf.string)]
    )


def test_arrays_in_and_out():
    square, same, text = squares()([1, 2], "a")
    assert square.tolist() == [1, 4]
    assert same.tolist() == [1, 2]
    assert text == b"a"


def test_pickle_round_trip():
    function = squares()
    again = pickle.loads(pickle.dumps(function))
    assert again.key == function.key
    assert again([3.0], "")[0].tolist() == [9.0]
    assert GraphFunction.trace(lambda x: [x + 1], [tf.TensorSpec([None])]).key != function.key


def test_threads_do_not_share_variables():
    @tff.tensorflow.computation(np.int32)
    def count(number):
        variable = tf.Variable(0)

        @tf.function
        def add():
            for _ in tf.range(1000):
                variable.assign_add(number)
            return variable.read_value()

        return add()

    function = GraphFunction.from_computation(count)
    with futures.ThreadPoolExecutor(4) as pool:
        found = [result.tolist() for (result,) in pool.map(function, range(20))]
    assert found == [1000 * i for i in range(20)]


def test_only_the_last_results_are_computed():
    @tff.tensorflow.computation(np.float32)
    def checked(x):
        with tf.control_dependencies([tf.debugging.assert_positive(x)]):
            first = tf.identity(x)
        return first, [x + 1, x + 2]

    with pytest.raises(tf.errors.InvalidArgumentError):
        GraphFunction.from_computation(checked)(-1.0)
    assert GraphFunction.from_computation(checked, 2)(-1.0) == [0.0, 1.0]


def test_close_ends_a_call_and_the_next_one_works():
    def forever(stop):
        return [tf.while_loop(lambda i: i < stop, lambda i: [i + 1], [tf.constant(0)])[0]]

    function = GraphFunction.trace(forever, [tf.TensorSpec([], tf.int32)])
    begun, errors = threading.Event(), []

    def call():
        begun.set()
        try:
            function(2**31 - 1)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait()
    while thread.is_alive():
        function.close()
        thread.join(0.1)
    assert len(errors) == 1
    assert function(5) == [5]


def test_sequences_are_refused():
    @tff.tensorflow.computation(tff.SequenceType(np.float32))
    def total(values):
        return values.reduce(0.0, lambda a, b: a + b)

    with pytest.raises(ValueError, match="leaves must be tensors"):
        GraphFunction.from_computation(total)


def test_leaves_follow_the_type():
    type_spec = tff.to_type([("b", (np.int32, [2])), ("a", [np.int32, np.int32])])
    leaves = leaves_of({"a": (3, 4), "b": [1, 2]}, type_spec)
    assert leaves == [[1, 2], 3, 4]
    packed = pack_as(type_spec, iter(leaves))
    assert leaves_of(packed, type_spec) == leaves
    assert [spec.shape.as_list() for spec in tensor_specs(type_spec)] == [[2], [], []]
    with pytest.raises(ValueError, match="zip"):
        leaves_of([1], type_spec)
