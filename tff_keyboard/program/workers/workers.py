"""TFF worker processes that never outlive the program that started them.

TFF computes in a C++ server, `worker_binary`, over gRPC. TFF's own manager stops it with SIGINT
from a destructor: after SIGTERM or SIGKILL of the parent the server is orphaned, and where SIGINT
is ignored (`nohup`, `&` in a script) Python waits for it for ever. Here the kernel does the work:

  * The worker gets SIGKILL at the death of its parent (`host/children.py`).
  * The kernel means the parent *thread*. So one thread, which lives as long as the process,
    starts all workers; the caller's thread does not matter.
  * The worker leads its own session: Ctrl-C reaches the program, which then decides.
  * It writes to its own log file and reads `/dev/null`: it holds no pipe of the caller open.

Security: the server computes any TensorFlow graph it is sent and asks for no password.
`program/workers/endpoints.py` has it listen on a socket file of this user.
"""

import atexit
import importlib.util
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import BinaryIO, TypeVar

from tff_keyboard.host import children
from tff_keyboard.program import errors
from tff_keyboard.program.workers import endpoints
from tff_keyboard.storage import files, in_progress

START_TIMEOUT_SECONDS = 60.0

Result = TypeVar("Result")

_START_ATTEMPTS = 3
_STOP_SECONDS = 5.0


def worker_binary_path() -> pathlib.Path:
    """Where the installed TFF keeps its server; does not import TFF."""
    spec = importlib.util.find_spec("tensorflow_federated")
    if spec is None or spec.origin is None:
        raise errors.WorkerError("tensorflow_federated is not installed. Run `uv sync`.")
    path = pathlib.Path(spec.origin).parent / "data" / "worker_binary"
    if not os.access(path, os.X_OK):
        raise errors.WorkerError(
            f"TFF's server {path.name} is missing from the installed package or may not be "
            "executed. Reinstall tensorflow_federated (Linux x86-64 wheel)."
        )
    return path


class Worker:
    """One `worker_binary`, started by the constructor and gone after `stop()`.

    A context manager. `address` is what a gRPC channel connects to.

    Args:
      log_path: Gets the server's output, appended. None: the output is dropped.
      max_concurrent_clients: Clients computed at a time, >= 1. None: all of a cohort at once,
        which is fastest for few small clients and needs the memory of all of them.
      threads: TensorFlow threads of one operation, >= 1. None: as many as there are cores. Many
        small recurrent kernels run faster with 1 thread and several clients at a time. Results
        depend on it to the last bit: a sum is grouped differently.

    Raises `WorkerError`, which names its log, if the server did not listen in time or ended.
    """

    def __init__(
        self,
        log_path: str | os.PathLike[str] | None = None,
        *,
        max_concurrent_clients: int | None = None,
        threads: int | None = None,
        start_timeout_seconds: float = START_TIMEOUT_SECONDS,
    ):
        limits = {"max_concurrent_clients": max_concurrent_clients, "threads": threads}
        for name, value in limits.items():
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be >= 1 or None, got {value}.")
        if start_timeout_seconds <= 0:
            raise ValueError(f"`start_timeout_seconds` must be > 0, got {start_timeout_seconds}.")
        self._log_path = None if log_path is None else pathlib.Path(log_path)
        self._arguments = [f"--max_concurrent_computation_calls={max_concurrent_clients or -1}"]
        self._environment = _environment(threads, max_concurrent_clients)
        self._start_timeout_seconds = start_timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._endpoint: endpoints.Endpoint | None = None
        self.start()
        atexit.register(self.stop)

    @property
    def address(self) -> str:
        """Where the server listens, as gRPC writes it; "" when it was stopped."""
        return "" if self._endpoint is None else self._endpoint.address

    @property
    def pid(self) -> int:
        """Process id of the server, 0 when it was stopped."""
        return self._process.pid if self._process is not None else 0

    def is_alive(self) -> bool:
        """Whether the server runs; false as soon as it ends, which is before it can be reaped."""
        process = self._process
        return process is not None and process.poll() is None and not _is_ending(process.pid)

    def start(self) -> None:
        """Starts the server, after stopping one that runs; returns when it listens."""
        self.stop()
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                return self._start_once()
            except errors.WorkerError:
                self.stop()
                if attempt == _START_ATTEMPTS:
                    raise
        return None

    def stop(self) -> None:
        """Ends the server and frees its address; nothing happens when it is gone already."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *unused_exception: object) -> None:
        self.stop()
        atexit.unregister(self.stop)

    def _start_once(self) -> None:
        with _open_log(self._log_path) as log:
            run = self._log_path and self._log_path.parent.absolute()
            self._endpoint = endpoint = endpoints.open_endpoint(worker_binary_path(), run)
            words = [str(endpoint.binary), f"--port={endpoint.port}", *self._arguments]
            command = children.signalled_when_orphaned(words, signal.SIGKILL)
            self._process = process = _run_in_launching_thread(
                lambda: subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment,
                    cwd=endpoint.working_directory,
                    pass_fds=endpoint.inherited,
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + self._start_timeout_seconds
        while not endpoint.is_listening():
            if process.poll() is not None:
                problem = f"ended with status {process.returncode}"
            elif time.monotonic() > deadline:
                problem = f"did not listen within {self._start_timeout_seconds:g} seconds"
            else:
                time.sleep(0.02)
                continue
            log_name = self._log_path or "a log (give `log_path` to see it)"
            raise errors.WorkerError(
                f"TFF's server {problem}. Its output is in {log_name}; "
                "`tff-keyboard doctor` checks what it needs."
            )


def _environment(threads: int | None, max_concurrent_clients: int | None) -> dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep warnings, drop chatter
    if threads is not None:
        environment["TF_NUM_INTRAOP_THREADS"] = str(threads)
        # The pool between operations is one for all clients: with a single thread in it, clients
        # that are to run side by side run one after the other.
        between = max(threads, max_concurrent_clients or os.cpu_count() or 1)
        environment["TF_NUM_INTEROP_THREADS"] = str(between)
    return environment


def _is_ending(pid: int) -> bool:
    """Whether the first thread of a process has ended; others may still be on their way out."""
    try:
        facts = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return facts.rpartition(")")[2].split()[0] in ("Z", "X")


def _open_log(path: pathlib.Path | None) -> BinaryIO:
    if path is None:
        return open(os.devnull, "wb")  # noqa: PTH123 (a device, not a path of ours)
    try:
        in_progress.make_missing(path.parent)
        return path.open("ab")
    except OSError as error:
        raise files.cannot_write(path, error) from error


# The thread that is the parent of all workers, by process id: a forked child needs its own.
_launching_queues: dict[int, queue.SimpleQueue] = {}
_launching_lock = threading.Lock()


def _run_in_launching_thread(function: Callable[[], Result]) -> Result:
    """Calls `function` in the thread that lives as long as this process, returns its result."""
    with _launching_lock:
        tasks = _launching_queues.get(os.getpid())
        if tasks is None:
            tasks = _launching_queues[os.getpid()] = queue.SimpleQueue()
            threading.Thread(
                target=_serve, args=(tasks,), name="tff-worker-parent", daemon=True
            ).start()
    future: futures.Future[Result] = futures.Future()
    tasks.put((function, future))
    return future.result()


def _serve(tasks: queue.SimpleQueue) -> None:
    while True:
        function, future = tasks.get()
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
