"""A test run opens no port, and leaves no process behind when it is interrupted."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support.processes import interrupted_run, processes_below

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.slow
def test_what_tests_compute_in_starts_no_process():
    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(values):
        return tff.federated_sum(values)

    assert total([1, 2, 4]) == 7
    below = processes_below.descendants(os.getpid())
    assert not any(processes_below.name(pid).startswith("worker_binary") for pid in below)


LISTENS = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); input()"


@pytest.mark.slow
def test_a_server_of_tffs_that_listened_would_be_seen(tmp_path):
    named = tmp_path / "worker_binary"
    named.symlink_to(sys.executable)
    worker = subprocess.Popen([named, "-S", "-E", "-c", LISTENS], stdin=subprocess.PIPE)
    while not processes_below.listening_workers(os.getpid()):
        assert worker.poll() is None
        time.sleep(0.01)
    worker.communicate()


STARTS_ONE = f"""
import subprocess, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.processes import reaper
print(reaper.start().pid, flush=True)
below = subprocess.Popen(["sleep", "600"], start_new_session=True)
program = "import os; os.fork(); input()"
other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
print(below.pid, other.pid, flush=True)
input()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_reaper_ends_what_is_below_a_run_that_ends(number):
    run = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    kept = int(run.stdout.readline())
    below = list(map(int, run.stdout.readline().split()))
    below += [pid for each in below for pid in processes_below.descendants(each)]
    assert all(map(processes_below.is_running, [kept, *below]))
    run.send_signal(number)
    run.communicate()
    wait_until_gone([kept, *below])


def wait_until_gone(pids):
    """For as long as `timeout` of pytest."""
    while any(map(processes_below.is_running, pids)):
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process(tmp_path, number):
    """Of xdist, with a program below a test."""
    started = tmp_path / "started"
    started.mkdir()
    command = [sys.executable, "-m", "pytest", "--numprocesses=1", "-p", "no:cacheprovider"]
    run = subprocess.Popen(
        [*command, interrupted_run.__file__],
        env={**os.environ, interrupted_run.VARIABLE: str(started)},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (started / "all").exists():
        assert run.poll() is None
        time.sleep(0.01)
    below = processes_below.descendants(run.pid)
    names = list(map(processes_below.name, below))
    assert "sleep" in names
    ports = {pid: processes_below.listening_ports(pid) for pid in below}
    assert not any(ports.values()), ports
    run.send_signal(number)
    run.wait()
    wait_until_gone(below)
