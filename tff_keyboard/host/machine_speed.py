"""Measures the speed of this machine, for estimates of computing time."""

import dataclasses
import os
import time
from collections.abc import Callable

import numpy as np

SECONDS = 0.5
_STACK, _SIZE = 50, 64  # small matrices, which a BLAS multiplies in one thread


@dataclasses.dataclass(frozen=True)
class Machine:
    """The number of cores of a machine, and the speed of one core."""

    cores: int
    # of one core, in float32 products of 64 by 64 matrices
    gflops: float


def measured(
    seconds: float = SECONDS, cpu_clock: Callable[[], float] = time.process_time
) -> Machine:
    """Measures this machine for `seconds` of CPU time, so that other load hardly matters."""
    factors = np.ones((_STACK, _SIZE, _SIZE), np.float32)
    product = np.empty_like(factors)
    start, products, spent = cpu_clock(), 0, 0.0
    while spent < seconds:
        np.matmul(factors, factors[0], out=product)
        products += _STACK
        spent = cpu_clock() - start
    operations = 2 * products * _SIZE**3
    return Machine(len(os.sched_getaffinity(0)), operations / spent / 1e9)
