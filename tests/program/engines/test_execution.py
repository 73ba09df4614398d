"""One, two or three workers, some of them dead: the same bits, or one clear error."""

import functools
import os
import signal
import time

import numpy as np
import pytest
import tensorflow_federated as tff
import tree

from tests.support import fakes
from tff_keyboard.program import errors
from tff_keyboard.program.engines import execution
from tff_keyboard.program.workers import worker_context

ROUNDS = 3


@pytest.fixture(scope="module")
def process():
    return fakes.tiny_process()


@pytest.fixture(autouse=True)
def restore_context():
    before = tff.framework.get_context_stack().current
    yield
    tff.framework.set_default_context(before)  # that of a test has no workers any more


def train(process, installed, rounds=ROUNDS, before_round=lambda round_num: None):
    with installed:
        state = process.initialize()
        metrics = None
        for round_num in range(1, rounds + 1):
            before_round(round_num)
            state, metrics = process.next(state, fakes.tiny_cohort(round_num, 7).datasets)
    return state, metrics


def kill(worker):
    os.kill(worker.pid, signal.SIGKILL)
    while worker.is_alive():
        time.sleep(0.01)


@pytest.fixture(scope="module")
def plain():
    """One worker, one sub-round; a test makes its context the default one."""
    with execution.install_context(1) as installed:
        yield installed


@pytest.fixture(scope="module")
def two_subrounds():
    """One worker, two sub-rounds."""
    with execution.install_context(1, num_subrounds=2) as installed:
        yield installed


def use(installed):
    tff.framework.set_default_context(installed.context)


@pytest.fixture(scope="module")
def three_subrounds(process):
    """The result of one worker and three sub-rounds: what all others must equal."""
    return train(process, execution.install_context(1, num_subrounds=3))


def numpy_round(state, datasets):
    """Federated averaging with momentum of least squares, in float64."""
    deltas, counts = [], []
    for dataset in datasets:
        weights = np.array(state["weights"], np.float64)
        for batch in dataset.as_numpy_iterator():
            weights -= 0.05 * batch["x"].T @ (batch["x"] @ weights - batch["y"])
        deltas.append(weights - state["weights"])
        counts.append(sum(len(batch["y"]) for batch in dataset.as_numpy_iterator()))
    velocity = 0.9 * state["velocity"] + np.average(deltas, axis=0, weights=counts)
    return {"weights": state["weights"] + velocity, "velocity": velocity}


@pytest.mark.parametrize("num_subrounds", [1, 3])
def test_computes_what_numpy_says(process, three_subrounds, num_subrounds):
    if num_subrounds == 3:
        state, _ = three_subrounds
    else:
        state, _ = train(process, execution.install_context(1, threads_per_worker=1))
    expected = {"weights": np.zeros((3, 1)), "velocity": np.zeros((3, 1))}
    for round_num in range(1, ROUNDS + 1):
        expected = numpy_round(expected, fakes.tiny_cohort(round_num, 7).datasets)
    np.testing.assert_allclose(state["weights"], expected["weights"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state["velocity"], expected["velocity"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "merge_block", [5, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 3))]
)
def test_blocks_are_folded_first(merge_block):
    """A sum in float32 that rounds differently for each grouping."""

    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def total(values):
        return tff.federated_sum(values)

    values = np.random.default_rng(3).normal(size=12).astype(np.float32) * 10.0 ** np.arange(12)
    values = values.astype(np.float32)
    blocks = [values[i : i + merge_block] for i in range(0, 12, merge_block)]
    sums = [functools.reduce(np.add, block) for block in blocks]
    for num_workers in (1, 2):
        with execution.install_context(num_workers, num_subrounds=12, merge_block=merge_block):
            assert total(list(values)) == functools.reduce(np.add, sums)


@pytest.mark.parametrize("num_workers", [3, pytest.param(2, marks=pytest.mark.slow)])
def test_workers_do_not_change_a_bit(process, three_subrounds, num_workers):
    result = train(
        process,
        execution.install_context(num_workers, num_subrounds=3, max_concurrent_clients=2),
    )
    assert fakes.digest(result) == fakes.digest(three_subrounds)
    tree.assert_same_structure(result, three_subrounds)


@pytest.mark.slow
def test_a_worker_that_dies_is_started_again(process, three_subrounds):
    installed = execution.install_context(2, num_subrounds=3)
    first = [worker.pid for worker in installed.pool.members]

    def before_round(round_num):
        if round_num == 2:
            kill(installed.pool.members[0])

    result = train(process, installed, before_round=before_round)
    assert fakes.digest(result) == fakes.digest(three_subrounds)
    assert first[0] != first[1]


@pytest.mark.parametrize("max_restarts", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_worker_that_dies_in_a_round(process, three_subrounds, max_restarts, monkeypatch):
    installed = execution.install_context(2, num_subrounds=3, max_restarts=max_restarts)
    invoke = worker_context.WorkerContext.invoke
    killed = []

    def invoke_and_kill(self, comp, arg):
        if not killed and self is installed.engine._places[1].context:
            killed.append(self._factory.create_executor({tff.CLIENTS: 2}))
            kill(installed.pool.members[1])  # an executor of it is in use already
        return invoke(self, comp, arg)

    monkeypatch.setattr(worker_context.WorkerContext, "invoke", invoke_and_kill)
    with installed:
        result = train(process, installed)
    assert killed
    assert fakes.digest(result) == fakes.digest(three_subrounds)


def test_all_workers_dead(process):
    with execution.install_context(2, max_restarts=0) as installed:
        state = process.initialize()
        for worker in installed.pool.members:
            kill(worker)
        start = time.monotonic()
        with pytest.raises(errors.WorkerError, match="All 2 TFF workers died"):
            process.next(state, fakes.tiny_cohort(1).datasets)
        assert time.monotonic() - start < 300


def test_attempts_are_bounded(process, monkeypatch):
    """A worker that dies of this computation, again and again."""
    with execution.install_context(1, max_restarts=100, max_attempts=3) as installed:
        worker = installed.pool.members[0]
        create = worker_context.FailoverExecutorFactory.create_executor
        attempts = []

        def create_and_kill(self, cardinalities):
            executor = create(self, cardinalities)
            attempts.append(worker.pid)
            kill(worker)
            return executor

        monkeypatch.setattr(
            worker_context.FailoverExecutorFactory, "create_executor", create_and_kill
        )
        with pytest.raises(errors.WorkerError, match="failed on its workers 3 times"):
            process.initialize()
        assert len(set(attempts)) == 3


def test_an_error_of_a_computation_is_not_repeated(plain):
    import grpc
    import tensorflow as tf

    @tff.tensorflow.computation(np.int32)
    def fail_on_zero(x):
        with tf.control_dependencies([tf.debugging.assert_positive(x)]):
            return tf.identity(x)

    use(plain)
    pid = plain.pool.members[0].pid
    with pytest.raises(grpc.RpcError):
        fail_on_zero(0)
    assert fail_on_zero(1) == 1  # the next one works
    assert plain.pool.members[0].pid == pid


def test_fewer_clients_than_subrounds(process, plain, two_subrounds):
    datasets = fakes.tiny_cohort(1, 1).datasets
    results = []
    for installed in (two_subrounds, plain):
        use(installed)
        results.append(process.next(process.initialize(), datasets))
    for a, b in zip(*map(tree.flatten, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_no_clients(two_subrounds):
    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(values):
        return tff.federated_sum(values)

    use(two_subrounds)
    assert total([]) == 0
    assert total([1, 2, 4]) == 7


def test_dependent_aggregations_need_one_subround(plain, two_subrounds):
    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def spread(values):
        mean = tff.federated_broadcast(tff.federated_mean(values))

        @tff.tensorflow.computation
        def difference(a, b):
            return a - b

        return tff.federated_sum(tff.federated_map(difference, (values, mean)))

    use(two_subrounds)
    with pytest.raises(errors.ProgramError, match="cannot be cut into sub-rounds"):
        spread([1.0, 2.0])
    use(plain)
    assert spread([1.0, 2.0]) == 0.0


def test_results_at_clients_need_one_subround(two_subrounds):
    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def same(values):
        return values

    use(two_subrounds)
    with pytest.raises(errors.ProgramError, match="results at the clients"):
        same([1, 2])


def test_aggregation_time(process, plain, two_subrounds):
    assert plain.pop_aggregation_seconds() is None
    use(two_subrounds)
    process.next(process.initialize(), fakes.tiny_cohort(1).datasets)
    assert two_subrounds.pop_aggregation_seconds() > 0
    assert two_subrounds.pop_aggregation_seconds() == 0


def test_executors_are_closed_when_they_make_room(plain):
    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(values):
        return tff.federated_sum(values)

    use(plain)
    for num_clients in range(1, 14):
        assert total([1] * num_clients) == num_clients
    assert len(plain.context._factory._executors) == worker_context._MAX_CACHED_EXECUTORS


@pytest.mark.slow
def test_the_state_of_federated_averaging_keeps_its_containers():
    process = fakes.federated_averaging()
    results = {}
    for num_workers in (1, 2):
        with execution.install_context(num_workers):
            state, _ = process.next(process.initialize(), fakes.tiny_cohort(1).datasets)
            results[num_workers] = state, process.get_model_weights(state)
    tree.assert_same_structure(results[1], results[2])
    assert isinstance(results[2][1], tff.learning.models.ModelWeights)
    for a, b in zip(tree.flatten(results[1]), tree.flatten(results[2]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "options",
    [{f"{name}": 0} for name in ("num_workers", "num_subrounds", "merge_block", "max_attempts")]
    + [{"max_restarts": -1}],
    ids=str,
)
def test_rejects(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}`"):
        execution.install_context(**options)


@pytest.mark.slow
def test_a_worker_that_hangs_is_given_up(process, three_subrounds, monkeypatch):
    installed = execution.install_context(2, num_subrounds=3, max_restarts=0)
    hanging = installed.pool.members[1]
    os.kill(hanging.pid, signal.SIGKILL)  # its port stays reserved: nothing answers there
    monkeypatch.setattr(hanging, "is_alive", lambda: hanging.pid != 0)
    result = train(process, installed)
    assert hanging.pid == 0
    assert fakes.digest(result) == fakes.digest(three_subrounds)
