"""The speed of the machine is the number of operations per CPU second."""

import itertools
import os

import pytest

from tff_keyboard.host import machine_speed


@pytest.mark.parametrize("tick, products", [(0.125, 4 * 50), (0.5, 50), (0.3, 2 * 50)])
def test_operations_are_counted_until_the_seconds_are_over(tick, products):
    ticks = itertools.count(7.0, tick)
    actual = machine_speed.measured(0.5, cpu_clock=lambda: next(ticks))
    seconds = products / 50 * tick
    assert actual.gflops == pytest.approx(2 * products * 64**3 / seconds / 1e9)
    assert actual.cores == len(os.sched_getaffinity(0))


def test_this_machine_computes_something():
    assert 0.1 < machine_speed.measured(0.01).gflops < 1e4
