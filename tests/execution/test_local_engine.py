"""Items on threads of this process: their order, their errors, and cancellation."""

import contextlib
import threading
import time

import hypothesis
import pytest
from hypothesis import strategies as st

from tff_keyboard.execution.engine import Job, LocalEngine, fold_in_order


class Function:
    """A function that calls `compute` and records whether it was closed."""

    key = "function"

    def __init__(self, compute):
        self._compute = compute
        self.closed = threading.Event()

    def __call__(self, shared, item):
        return self._compute(shared, item)

    def close(self):
        self.closed.set()


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_order(threads):
    def compute(shared, item):
        time.sleep(0.002 * (item % 3))
        return shared * item

    with LocalEngine(threads) as engine:
        found = list(engine.run(Job(Function(compute), 10, range(8))))
    assert found == [(i, 10 * i) for i in range(8)]


def test_error_is_raised_and_cancels_the_rest():
    done = []

    def compute(shared, item):
        if item == 1:
            raise ValueError("item 1")
        if item > 1:
            assert function.closed.wait(60)
        done.append(item)

    function = Function(compute)
    with LocalEngine(1) as engine:
        with pytest.raises(ValueError, match="item 1"):
            list(engine.run(Job(function, None, range(50))))
        assert len(done) <= 2
        assert list(engine.run(Job(Function(lambda *_: 7), None, [0]))) == [(0, 7)]


def test_cancelling_closes_running_items():
    def wait(shared, item):
        if item:
            assert function.closed.wait(60)  # as a session that is closed ends its calls

    function = Function(wait)
    with (
        LocalEngine(2) as engine,
        contextlib.closing(engine.run(Job(function, None, range(4)))) as results,
    ):
        next(results)
    assert function.closed.is_set()


def test_number_of_threads():
    with LocalEngine() as all_of_them, LocalEngine(3) as three:
        assert all_of_them.threads >= 1
        assert three.threads == 3
    with pytest.raises(ValueError, match="`threads` must be >= 0, got -2"):
        LocalEngine(-2)


@hypothesis.given(st.permutations(range(6)))
def test_fold_does_not_depend_on_the_order_of_arrival(order):
    results = iter([(i, "abcdef"[i]) for i in order])
    assert fold_in_order(results, lambda a, b: f"({a}{b})") == "(((((ab)c)d)e)f)"


def test_fold_without_results_is_none():
    assert fold_in_order(iter([]), lambda a, b: a + b) is None
