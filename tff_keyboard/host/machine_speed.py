"""What this machine computes in a second: an estimate of time is one of a machine."""

import dataclasses
import os
import time
from collections.abc import Callable

import numpy as np

SECONDS = 0.5
_STACK, _SIZE = 50, 64  # small products, which a BLAS computes in one thread


@dataclasses.dataclass(frozen=True)
class Machine:
    """Cores, and what one of them does."""

    cores: int
    # billions of operations of a core in a second: float32 products of 64 by 64 matrices
    gflops: float


def measured(
    seconds: float = SECONDS, cpu_clock: Callable[[], float] = time.process_time
) -> Machine:
    """This machine, measured for so many CPU seconds: what else runs on it hardly counts."""
    factors = np.ones((_STACK, _SIZE, _SIZE), np.float32)
    product = np.empty_like(factors)
    start, products, spent = cpu_clock(), 0, 0.0
    while spent < seconds:
        np.matmul(factors, factors[0], out=product)
        products += _STACK
        spent = cpu_clock() - start
    operations = 2 * products * _SIZE**3
    return Machine(len(os.sched_getaffinity(0)), operations / spent / 1e9)
