"""Not one of the suite: a test that waits until `tests/test_what_tests_leave.py` interrupts it."""

import os
import pathlib
import signal
import subprocess

import numpy as np
import tensorflow_federated as tff

VARIABLE = "TFF_KEYBOARD_INTERRUPTED_RUN"


def test_that_waits():
    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(values):
        return tff.federated_sum(values)

    assert total([1, 2, 4]) == 7
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    (pathlib.Path(os.environ[VARIABLE]) / "all").touch()
    signal.pause()
