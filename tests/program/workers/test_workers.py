"""Workers start, answer, and never outlive their parent, however it ends."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from tff_keyboard.program import errors
from tff_keyboard.program.workers import workers

ROOT = pathlib.Path(__file__).parents[3]

# Starts a worker, tells its pid, then ends in the way given by argv[1].
PROGRAM = textwrap.dedent(
    """
    import os, sys, time
    from tff_keyboard.program.workers import workers
    worker = workers.Worker()
    print(worker.pid, flush=True)
    if sys.argv[1] == "exception":
        raise RuntimeError("on purpose")
    if sys.argv[1] == "os._exit":
        os._exit(3)
    if sys.argv[1] == "wait":
        time.sleep(600)
    """
)


def is_running(pid):
    """Whether `pid` is a process that is not a zombie."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pid, seconds=60.0):
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)


def start_program(ending, **options):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, ending],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **options,
    )


@pytest.mark.parametrize("ending, status", [("normal", 0), ("exception", 1), ("os._exit", 3)])
def test_no_worker_after_the_parent_ends(ending, status):
    program = start_program(ending)
    # `communicate` also waits until nobody holds the pipes: a worker must not.
    output, _ = program.communicate(timeout=600)
    assert program.returncode == status
    assert wait_until_gone(int(output))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_no_worker_after_a_signal(number):
    program = start_program("wait")
    pid = int(program.stdout.readline())
    assert is_running(pid)
    program.send_signal(number)
    program.communicate(timeout=600)
    assert program.returncode != 0
    assert wait_until_gone(pid)


def test_ends_normally_where_sigint_is_ignored():
    program = start_program(
        "normal", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    )
    output, _ = program.communicate(timeout=600)
    assert program.returncode == 0
    assert wait_until_gone(int(output))


def test_survives_the_end_of_the_thread_that_asked_for_it():
    started = []
    thread = threading.Thread(target=lambda: started.append(workers.Worker()))
    thread.start()
    thread.join()
    with started[0] as worker:
        time.sleep(0.2)
        assert worker.is_alive()


def test_listens_logs_and_stops(tmp_path):
    with workers.Worker(tmp_path / "logs" / "worker.log", threads=1) as worker:
        pid = worker.pid
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert b"TF_NUM_INTRAOP_THREADS=1" in environment
        descriptors = pathlib.Path(f"/proc/{pid}/fd")
        assert (descriptors / "0").readlink() == pathlib.Path(os.devnull)
        assert (descriptors / "1").readlink() == tmp_path / "logs" / "worker.log"
        assert os.getsid(pid) != os.getsid(0)  # Ctrl-C of the terminal does not reach it
    assert not worker.is_alive()
    assert worker.pid == 0
    assert not is_running(pid)
    worker.stop()  # again: nothing happens


def test_starts_again_after_it_was_killed():
    with workers.Worker() as worker:
        first = worker.pid
        os.kill(first, signal.SIGKILL)
        assert wait_until_gone(first)
        assert not worker.is_alive()
        worker.start()
        assert worker.is_alive()
        assert worker.pid != first


# Its first thread ends by itself (system call 60 is `exit`), another one lives on: so looks a
# process of many threads for a while after SIGKILL. It cannot be waited for yet.
HALF_DEAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_a_server_that_is_ending_is_not_alive():
    with workers.Worker() as worker:
        sound, worker._process = (
            worker._process,
            subprocess.Popen([sys.executable, "-c", HALF_DEAD]),
        )
        try:
            assert wait_until_gone(worker.pid)
            assert worker._process.poll() is None
            assert not worker.is_alive()
        finally:
            worker._process.kill()
            worker._process.wait()
            worker._process = sound
        assert worker.is_alive()


def fake_binary(tmp_path, body):
    path = tmp_path / "worker_binary"
    path.write_bytes(f"#!/bin/sh\n{body}\nexit\n".encode() + b"\0[::]:\0")
    path.chmod(0o755)
    return path


def test_deadline(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = fake_binary(tmp_path, "exec sleep 600")
    monkeypatch.setattr(workers, "worker_binary_path", lambda: path)
    start = time.monotonic()
    with pytest.raises(errors.WorkerError, match=r"did not listen within 0\.2 seconds"):
        workers.Worker(start_timeout_seconds=0.2)
    assert time.monotonic() - start < 300


def test_server_that_ends_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = fake_binary(tmp_path, "echo no such library; exit 127")
    monkeypatch.setattr(workers, "worker_binary_path", lambda: path)
    log = tmp_path / "worker.log"
    with pytest.raises(errors.WorkerError, match=r"ended with status 127.*worker\.log"):
        workers.Worker(log)
    assert "no such library" in log.read_text()


def test_missing_server(monkeypatch):
    monkeypatch.setattr(workers.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(errors.WorkerError, match="not installed"):
        workers.worker_binary_path()


def test_log_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ProgramError, match="Cannot write"):
        workers.Worker(tmp_path / "file" / "worker.log")


@pytest.mark.parametrize(
    "options",
    [{"max_concurrent_clients": 0}, {"threads": 0}, {"start_timeout_seconds": 0.0}],
    ids=str,
)
def test_rejects(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        workers.Worker(**options)
