"""TFF's own builders in this process: stock TFF's results, whichever loop the program names."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing.dataset_reads import rewrite
from tff_keyboard.algorithms.client_packing.round_form import RoundForm, make_pack
from tff_keyboard.data import batches
from tff_keyboard.execution.engine import LocalEngine
from tff_keyboard.execution.graph_piece import GraphPiece

LOOPS = list(tff.learning.LoopImplementation)
VOCABULARY = 11
SPEC = collections.OrderedDict(
    x=tf.TensorSpec([None, None], tf.int32), y=tf.TensorSpec([None, None], tf.int32)
)


def keras_gru():
    model = tf.keras.Sequential(
        [
            tf.keras.Input(shape=(None,)),
            tf.keras.layers.Embedding(VOCABULARY, 4, embeddings_initializer=uniform(1)),
            tf.keras.layers.GRU(
                5,
                return_sequences=True,
                kernel_initializer=uniform(2),
                recurrent_initializer=uniform(3),
            ),
            tf.keras.layers.Dense(VOCABULARY, kernel_initializer=uniform(4)),
        ]
    )
    return tff.learning.models.from_keras_model(
        model,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
        input_spec=SPEC,
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )


def uniform(seed):
    return tf.keras.initializers.RandomUniform(-0.5, 0.5, seed=seed)


def datasets(seed):
    """Four clients with 0 to 3 batches of different shapes."""
    rng = np.random.default_rng(seed)
    clients = [
        [rng.integers(1, VOCABULARY, [1 + b, 3 + b]).astype(np.int32) for b in range(num_batches)]
        for num_batches in (2, 0, 3, 1)
    ]
    return [batches.batches_dataset(client) for client in clients]


sgd = tff.learning.optimizers.build_sgdm
algorithms = tff.learning.algorithms
BUILDERS = {
    "fed_avg": lambda loop: algorithms.build_weighted_fed_avg(
        keras_gru, sgd(0.3, 0.9), loop_implementation=loop
    ),
    "fed_prox": lambda loop: algorithms.build_weighted_fed_prox(
        keras_gru, 0.5, sgd(0.3), loop_implementation=loop
    ),
    "mime_lite": lambda loop: algorithms.build_weighted_mime_lite(
        keras_gru, sgd(0.3, 0.9), loop_implementation=loop
    ),
    "fed_sgd": lambda loop: algorithms.build_fed_sgd(keras_gru, loop_implementation=loop),
    "fed_eval": lambda loop: algorithms.build_fed_eval(keras_gru, loop_implementation=loop),
}


def flat(value):
    return tff.structure.flatten(tff.structure.from_container(value, recursive=True))


def two_rounds(process):
    state, outputs = process.initialize(), []
    for round_num in range(2):
        outputs.append(process.next(state, datasets(round_num)))
        state = outputs[-1].state
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDERS)
def test_builders_equal_stock_tff(name, stock_tff):
    processes = {loop: BUILDERS[name](loop) for loop in LOOPS}
    with stock_tff():
        expected = two_rounds(processes[tff.learning.LoopImplementation.DATASET_ITERATOR])
    initial = flat(processes[LOOPS[0]].initialize())
    for loop, process in processes.items():
        outputs = two_rounds(process)
        for a, b in zip(flat(outputs), flat(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=loop.name)
    if name != "fed_eval":
        last = flat(outputs[-1].state)
        assert any(np.any(np.asarray(a) != b) for a, b in zip(last, initial, strict=True))


def of_one_sum(sum_of_client):
    """Returns a `RoundForm` of the sum over clients of a function of their dataset of float32."""
    data_type = tff.SequenceType(tff.TensorType(np.float32, [None]))
    work = tff.tensorflow.computation(sum_of_client, data_type)

    @tff.federated_computation(
        tff.FederatedType(np.int32, tff.SERVER), tff.FederatedType(data_type, tff.CLIENTS)
    )
    def next_fn(state, data):
        return state, tff.federated_sum(tff.federated_map(work, data))

    return RoundForm(next_fn)


def reduce_all(data):
    return data.reduce(0.0, lambda total, vector: total + tf.reduce_sum(vector))


def iterate(data):
    @tf.function
    def total():
        result = 0.0
        for vector in iter(data):
            result += tf.reduce_sum(vector)
        return result

    return total()


def iterate_twice(data):
    """Two iterators at a time, one after one element of the other."""

    @tf.function
    def total():
        result = 0.0
        for vector in iter(data):
            result += tf.reduce_sum(vector)
        for vector in iter(data):
            result += 2.0 * tf.reduce_sum(vector)
        return result

    return total()


def reduce_in_three_epochs(data):
    @tf.function
    def total():
        result = 0.0
        for _ in tf.range(3):
            result = data.reduce(result, lambda total, v: total + tf.reduce_sum(v))
        return result

    return total()


def iterate_in_three_epochs(data):
    @tf.function
    def total():
        result = 0.0
        for _ in tf.range(3):
            for vector in iter(data):
                result += tf.reduce_sum(vector)
        return result

    return total()


def reduce_inside_of_a_function(data):
    @tf.function
    def inner(data):
        return data.reduce(0.0, lambda total, v: total + tf.reduce_sum(v))

    return tf.function(lambda data: inner(data) + 1.0)(data)


def reduce_in_a_branch(data):
    @tf.function
    def total(data):
        return tf.cond(tf.constant(2) > 1, lambda: reduce_all(data), lambda: -1.0)

    return total(data)


def reduce_a_reduction(data):
    """For each element a reduction over all elements."""
    return data.reduce(0.0, lambda total, v: total + tf.reduce_sum(v) * reduce_all(data))


def function_called_twice(data):
    inner = tf.function(reduce_all)
    return inner(data) + inner(data)


def iterate_without_iter(data):
    """`ScanDataset`, whose results a `ReduceDataset` reads."""

    @tf.function
    def total(data, factor):
        result, count = 0.0, 0
        last = tf.zeros([0])
        for vector in data:
            result += factor * tf.reduce_sum(vector)
            last = vector
            count += 1
        return result + tf.reduce_sum(last) + tf.cast(count, tf.float32)

    return total(data, tf.constant(2.0))


def iterate_without_iter_in_epochs(data):
    variable = tf.Variable(0.0)

    @tf.function
    def total():
        for _ in tf.range(3):
            for vector in data:
                variable.assign_add(tf.reduce_sum(vector))
        return variable.read_value()

    return total()


def iterate_until(data):
    """The loop ends early, with `TakeWhileDataset`."""

    @tf.function
    def total():
        result = 0.0
        for vector in data:
            if result > 10.0:
                break
            result += tf.reduce_sum(vector)
        return result

    return total()


def until(vectors):
    result = 0.0
    for vector in vectors:
        if result > 10.0:
            break
        result += np.sum(vector)
    return result


def take_and_map(data):
    return reduce_all(data.take(2).map(lambda v: 10.0 * v)) + reduce_all(data)


def explicit_next(data):
    @tf.function
    def total():
        return tf.reduce_sum(next(iter(data)))

    return total()


# Function, whether it reads tensors instead of a dataset, expected value of a client (NumPy).
READS = [
    (reduce_all, True, lambda v: sum(map(np.sum, v))),
    (iterate, True, lambda v: sum(map(np.sum, v))),
    (iterate_twice, True, lambda v: 3 * sum(map(np.sum, v))),
    (reduce_in_three_epochs, True, lambda v: 3 * sum(map(np.sum, v))),
    (iterate_in_three_epochs, False, lambda v: 3 * sum(map(np.sum, v))),
    (reduce_inside_of_a_function, True, lambda v: sum(map(np.sum, v)) + 1),
    (reduce_in_a_branch, True, lambda v: sum(map(np.sum, v))),
    (reduce_a_reduction, False, lambda v: sum(map(np.sum, v)) ** 2),
    (function_called_twice, False, lambda v: 2 * sum(map(np.sum, v))),
    (iterate_without_iter, True, lambda v: 2 * sum(map(np.sum, v)) + np.sum(v[-1]) + len(v)),
    (iterate_without_iter_in_epochs, True, lambda v: 3 * sum(map(np.sum, v))),
    (iterate_until, False, until),
    (take_and_map, False, lambda v: 10 * sum(map(np.sum, v[:2])) + sum(map(np.sum, v))),
    (explicit_next, False, lambda v: np.sum(v[0])),
]


@pytest.mark.parametrize(("read", "reads_tensors", "expected"), READS)
def test_reads_equal_numpy(read, reads_tensors, expected):
    rng = np.random.default_rng(3)
    cohort = [
        [rng.integers(0, 9, [size]).astype(np.float32) for size in sizes]
        for sizes in ([2], [1, 3, 2], [4, 0], [1, 1, 1, 1])
    ]
    form = of_one_sum(read)
    packs = [make_pack(part, form.element_spec) for part in (cohort[:3], cohort[3:])]
    with LocalEngine(2) as engine:
        for _ in range(2):
            assert form(engine, [np.int32(5)], packs) == (5, sum(map(expected, cohort)))

    results = []
    work = tff.tensorflow.computation(read, tff.SequenceType(tff.TensorType(np.float32, [None])))
    GraphPiece(
        work,
        rewrite=lambda graph, parameters: results.append(
            rewrite(graph, parameters[0], tf.TensorSpec([None], tf.float32))
        ),
    )
    assert results == [reads_tensors]


@pytest.mark.parametrize(
    "read", [reduce_all, iterate, iterate_twice, iterate_without_iter, take_and_map]
)
def test_clients_without_elements(read):
    form = of_one_sum(read)
    packs = [make_pack([[], [np.ones([2], np.float32)], []], form.element_spec)]
    with LocalEngine(1) as engine:
        _, total = form(engine, [np.int32(5)], packs)
    totals = {reduce_all: 2, iterate: 2, iterate_twice: 6, iterate_without_iter: 7}
    assert total == {**totals, take_and_map: 22}[read]


def test_a_dataset_that_ends_raises_as_in_tff():
    form = of_one_sum(explicit_next)
    with LocalEngine(1) as engine, pytest.raises(tf.errors.OutOfRangeError):
        form(engine, [np.int32(5)], [make_pack([[]], form.element_spec)])


def test_variables_start_from_their_initial_values_for_each_client():
    """The initial value is computed once for a pack, and a client does not see another's change."""

    def work(data):
        variable = tf.Variable(tf.random.stateless_uniform([3], seed=[1, 2]))

        @tf.function
        def total():
            for vector in data:
                variable.assign_add(tf.ones([3]) * tf.reduce_sum(vector))
            return tf.reduce_sum(variable)

        return total()

    form = of_one_sum(work)
    cohort = [[np.full([2], n, np.float32)] for n in range(4)]
    packs = [make_pack(cohort, form.element_spec)]
    initial = float(tf.reduce_sum(tf.random.stateless_uniform([3], seed=[1, 2])))
    with LocalEngine(1) as engine:
        for _ in range(2):
            _, total = form(engine, [np.int32(5)], packs)
            np.testing.assert_allclose(total, 4 * initial + 3 * 2 * sum(range(4)), rtol=1e-6)
