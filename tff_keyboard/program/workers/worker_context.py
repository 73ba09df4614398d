"""TFF's context on a worker of ours: bounded retries, the next worker when one is gone."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import tensorflow_federated as tff

from tff_keyboard.host.malloc import keep_freed_memory
from tff_keyboard.program import errors
from tff_keyboard.program.workers.native_compiler import to_native
from tff_keyboard.program.workers.worker_pool import WorkerPool
from tff_keyboard.program.workers.workers import START_TIMEOUT_SECONDS

_MESSAGE_BYTES = 2_000_000_000
_CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),  # the worker is on this machine, whatever http_proxy says
    # A worker that hangs (stopped, swapped out) is noticed after 6.5 minutes. Shorter intervals
    # look safe, but a gRPC server closes connections that ping more than every 5 minutes during
    # one long call, and a round may take that long.
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 60_000),
    ("grpc.http2.max_pings_without_data", 0),
]
_MAX_CACHED_EXECUTORS = 8


class FailoverExecutorFactory(tff.framework.ExecutorFactory):
    """Executors on the first worker of `pool` that answers, starting from `preferred`.

    TFF asks for a new executor at each retry of a call, without an end; after `max_attempts`
    for one call this raises instead. Executors are kept by cardinality (8 at most) and closed
    when they make room: the worker keeps the memory of one that is only forgotten.
    """

    def __init__(self, pool: WorkerPool, preferred: int, max_attempts: int):
        self._pool = pool
        self._preferred = preferred
        self._max_attempts = max_attempts
        self._failures = 0
        self._executors: dict[tuple, tuple[tff.framework.RemoteExecutor, grpc.Channel]] = {}

    def begin_call(self) -> None:
        """Counts failures from 0 again; to be called before each call."""
        self._failures = 0

    def create_executor(self, cardinalities: Mapping) -> tff.framework.RemoteExecutor:
        key = _key(cardinalities)
        if key in self._executors:
            self._executors[key] = self._executors.pop(key)  # most recently used is last
        else:
            while len(self._executors) >= _MAX_CACHED_EXECUTORS:
                self._close(next(iter(self._executors)))
            self._executors[key] = self._connect({tff.CLIENTS: 0, **cardinalities})
        return self._executors[key][0]

    def clean_up_executor(self, cardinalities: Mapping) -> None:
        self._close(_key(cardinalities))
        self._failures += 1
        if self._failures >= self._max_attempts:
            raise errors.WorkerError(
                f"A TFF computation failed on its workers {self._failures} times in a row; "
                "the logs of the workers say why."
            )

    def close(self) -> None:
        for key in list(self._executors):
            self._close(key)

    def _connect(self, cardinalities: Mapping) -> tuple[tff.framework.RemoteExecutor, grpc.Channel]:
        while True:  # each pass uses up a worker or a restart, or the pool raises
            address = self._pool.live_address(self._preferred)
            channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)
            stub = tff.framework.RemoteExecutorGrpcStub(_UnwatchedChannel(channel))
            executor = tff.framework.RemoteExecutor(stub)
            try:
                executor.set_cardinalities(cardinalities)
                return executor, channel
            except grpc.RpcError:
                channel.close()
                self._pool.give_up_on(address)

    def _close(self, key: tuple) -> None:
        executor, channel = self._executors.pop(key, (None, None))
        if executor is not None and channel is not None:
            executor.close()  # the worker may be gone: TFF ignores that
            channel.close()


class _UnwatchedChannel:
    """A channel whose state nobody watches.

    TFF's stub subscribes to the state of its channel, uses it for nothing, and never ends the
    subscription; the thread behind it fails with a traceback when the channel is closed.
    """

    def __init__(self, channel: grpc.Channel):
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> None:
        pass


def _key(cardinalities: Mapping) -> tuple:
    return tuple(sorted((str(placement), count) for placement, count in cardinalities.items()))


class WorkerContext(tff.framework.SyncContext):
    """TFF's synchronous context on one worker of a pool, with bounded retries."""

    def __init__(self, pool: WorkerPool, preferred: int = 0, max_attempts: int = 5):
        self._factory = FailoverExecutorFactory(pool, preferred, max_attempts)
        self._context = tff.framework.SyncExecutionContext(
            self._factory,
            to_native,
            transform_args=tff.tensorflow.transform_args,
            transform_result=tff.tensorflow.transform_result,
        )

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        self._factory.begin_call()
        return self._context.invoke(comp, arg)


def start_workers(
    num_workers: int,
    *,
    max_concurrent_clients: int | None,
    threads_per_worker: int | None,
    max_attempts: int = 5,
    max_restarts: int = 3,
    log_directory: str | os.PathLike[str] | None = None,
    start_timeout_seconds: float = START_TIMEOUT_SECONDS,
) -> tuple[WorkerPool, Sequence[WorkerContext]]:
    """Workers of this machine, and a context on each.

    `max_concurrent_clients` are those at a time in each worker, None its share of the cores;
    `threads_per_worker` None is 1. This process keeps the memory it frees from here on
    (`malloc.py`).
    """
    keep_freed_memory()
    share = max(1, len(os.sched_getaffinity(0)) // num_workers)
    pool = WorkerPool(
        num_workers,
        max_concurrent_clients=share if max_concurrent_clients is None else max_concurrent_clients,
        threads=1 if threads_per_worker is None else threads_per_worker,
        max_restarts=max_restarts,
        log_directory=log_directory,
        start_timeout_seconds=start_timeout_seconds,
    )
    return pool, [WorkerContext(pool, i, max_attempts) for i in range(num_workers)]
