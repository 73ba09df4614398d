"""Runs TFF computations on workers of our own: one, or several with the same result to the bit.

With one worker and one sub-round this is TFF's plain synchronous context. With more, the clients
of a round are cut into `num_subrounds` contiguous parts; parts are computed on the workers in
parallel and merged in the order of the parts. The result is a function of the number of
sub-rounds alone: not of how many workers there are, which of them failed, or which was first.
(TFF's own `MergeableCompExecutionContext` merges in order of completion and runs one part after
the other.) Several parts need a computation with a single aggregation, as all our algorithms
have, apart from those that say so.

A worker that dies in a round is started again and its part is repeated; when it cannot be, the
part goes to another. Attempts are bounded, and then there is one clear error.
"""

from __future__ import annotations

import os
import pathlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any

import grpc
import tensorflow_federated as tff

from tff_keyboard.program import errors, workers

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


class WorkerPool:
    """`num_workers` workers, restarted when they die, at most `max_restarts` times in all."""

    def __init__(
        self,
        num_workers: int,
        *,
        log_directory: str | os.PathLike[str] | None = None,
        max_restarts: int = 3,
        max_concurrent_clients: int | None = None,
        threads: int | None = None,
        start_timeout_seconds: float = 60.0,
    ):
        if max_restarts < 0:
            raise ValueError(f"`max_restarts` must be >= 0, got {max_restarts}.")
        self._lock = threading.Lock()
        self._restarts_left = max_restarts
        self._closed = False
        self._workers: list[workers.Worker] = []
        try:
            for i in range(num_workers):
                log_path = log_directory and pathlib.Path(log_directory) / f"worker_{i}.log"
                self._workers.append(
                    workers.Worker(
                        log_path,
                        max_concurrent_clients=max_concurrent_clients,
                        threads=threads,
                        start_timeout_seconds=start_timeout_seconds,
                    )
                )
        except BaseException:
            self.close()
            raise

    @property
    def members(self) -> Sequence[workers.Worker]:
        return tuple(self._workers)

    def live_address(self, preferred: int) -> str:
        """Address of worker `preferred`, or of the next that lives.

        A dead one is started again while restarts are left.

        Raises:
          WorkerError: No worker is left, or the pool was closed.
        """
        with self._lock:
            if self._closed:
                raise errors.WorkerError("The TFF workers were stopped.")
            for worker in [*self._workers[preferred:], *self._workers[:preferred]]:
                if worker.is_alive() or self._restart(worker):
                    return worker.address
        raise errors.WorkerError(
            f"All {len(self._workers)} TFF workers died, no restart is left; their logs say why. "
            "If the machine ran out of memory, lower `max_concurrent_clients` or the clients per "
            "round."
        )

    def give_up_on(self, address: str) -> None:
        """Ends the worker at `address`: it lives, but does not answer."""
        with self._lock:
            for worker in self._workers:
                if worker.address == address:
                    worker.stop()

    def close(self) -> None:
        """Stops all workers. What still runs on them fails at once."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                worker.stop()

    def _restart(self, worker: workers.Worker) -> bool:
        if self._restarts_left == 0:
            return False
        self._restarts_left -= 1
        try:
            worker.start()
        except errors.WorkerError:
            return False
        return True


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
        """To be called before each call, so that its failures are counted from 0."""
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
            tff.backends.native.desugar_and_transform_to_native,
            transform_args=tff.tensorflow.transform_args,
            transform_result=tff.tensorflow.transform_result,
        )

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        self._factory.begin_call()
        return self._context.invoke(comp, arg)


class OrderedMergeContext(tff.framework.SyncContext):
    """Runs computations over clients in sub-rounds, in parallel, merged in a fixed order.

    `pop_aggregation_seconds()` returns the time spent on merging and on what follows the
    aggregation since it was last asked.
    """

    def __init__(self, contexts: Sequence[WorkerContext], num_subrounds: int):
        self._contexts = list(contexts)
        self._num_subrounds = num_subrounds
        self._threads = [
            futures.ThreadPoolExecutor(1, thread_name_prefix="tff-subround") for _ in contexts
        ]
        self._merge_forms: dict = {}
        self._aggregation_seconds = 0.0

    def pop_aggregation_seconds(self) -> float:
        seconds, self._aggregation_seconds = self._aggregation_seconds, 0.0
        return seconds

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        parameter = comp.type_signature.parameter
        if parameter is None or not tff.types.contains(parameter, _is_at_clients):
            return self._contexts[0].invoke(comp, arg)
        form = self._merge_form(comp)
        parts = _split(arg, parameter, self._num_subrounds)
        # A part without clients adds nothing; of an empty round one part is left.
        parts = [part for part in parts if _num_clients(part, parameter)] or parts[:1]
        pending = [
            self._threads[i % len(self._contexts)].submit(
                self._contexts[i % len(self._contexts)].invoke, form.up_to_merge, part
            )
            for i, part in enumerate(parts)
        ]
        try:
            results = [future.result() for future in pending]
        except BaseException:
            for future in pending:
                future.cancel()
            raise
        start = time.perf_counter()
        merged = results[0]
        for result in results[1:]:
            merged = self._contexts[0].invoke(
                form.merge, tff.structure.Struct.unnamed(merged, result)
            )
        output = self._contexts[0].invoke(
            form.after_merge, tff.structure.Struct.unnamed(parts[0], merged)
        )
        self._aggregation_seconds += time.perf_counter() - start
        return tff.types.type_to_py_container(output, comp.type_signature.result)

    def close(self) -> None:
        for thread in self._threads:
            thread.shutdown(wait=False, cancel_futures=True)

    def _merge_form(self, comp: tff.Computation) -> tff.framework.MergeableCompForm:
        form = self._merge_forms.get(comp)  # hashes the computation: once a call is enough
        if form is None:
            if tff.types.contains(comp.type_signature.result, _is_at_clients):
                raise errors.ProgramError(
                    "A computation with results at the clients needs `num_workers` = 1 and "
                    "`num_subrounds` = 1."
                )
            try:
                form = tff.backends.native.compile_to_mergeable_comp_form(comp)
            except ValueError as error:
                raise errors.ProgramError(
                    "This algorithm has aggregations that depend on one another and cannot be "
                    "cut into sub-rounds. Set `num_workers` = 1 and `num_subrounds` = 1. "
                    f"(TFF: {str(error).splitlines()[0]})"
                ) from error
            self._merge_forms[comp] = form
        return form


def _is_at_clients(type_spec: tff.Type) -> bool:
    return isinstance(type_spec, tff.FederatedType) and type_spec.placement is tff.CLIENTS


def _split(value: Any, type_spec: tff.Type, num_parts: int) -> list[Any]:
    """`num_parts` copies of `value` in which lists at clients are cut, the rest is repeated."""
    if isinstance(type_spec, tff.StructType):
        elements = tff.structure.iter_elements(tff.structure.from_container(value))
        names_and_types = tff.structure.iter_elements(type_spec)
        columns = [
            (name, _split(element, element_type, num_parts))
            for (_, element), (name, element_type) in zip(elements, names_and_types, strict=True)
        ]
        return [
            tff.structure.Struct([(name, column[i]) for name, column in columns])
            for i in range(num_parts)
        ]
    if _is_at_clients(type_spec) and not type_spec.all_equal:
        cuts = [round(i * len(value) / num_parts) for i in range(num_parts + 1)]
        return [value[cuts[i] : cuts[i + 1]] for i in range(num_parts)]
    return [value] * num_parts


def _num_clients(value: Any, type_spec: tff.Type) -> int:
    if isinstance(type_spec, tff.StructType):
        elements = tff.structure.iter_elements(tff.structure.from_container(value))
        types = tff.structure.iter_elements(type_spec)
        return max(
            (
                _num_clients(element, t)
                for (_, element), (_, t) in zip(elements, types, strict=True)
            ),
            default=0,
        )
    return len(value) if _is_at_clients(type_spec) and not type_spec.all_equal else 0


class InstalledContext:
    """What `install_context` gives: a context manager that stops the workers at its end.

    The context stays TFF's default after it, and computations then raise `WorkerError`: TFF's own
    default would start a server of its own.

    Attributes:
      pool: The workers.
      context: The context that is TFF's default in the thread of `install_context`.
    """

    def __init__(
        self,
        pool: WorkerPool,
        context: tff.framework.SyncContext,
        aggregation_seconds: Callable[[], float] | None,
        close: Callable[[], None],
    ):
        self.pool = pool
        self.context = context
        self._aggregation_seconds = aggregation_seconds
        self._close = close

    def pop_aggregation_seconds(self) -> float | None:
        """Seconds of aggregation since the last call; None where it cannot be told apart."""
        return None if self._aggregation_seconds is None else self._aggregation_seconds()

    def close(self) -> None:
        self._close()
        self.pool.close()

    def __enter__(self) -> InstalledContext:
        return self

    def __exit__(self, *unused_exception: object) -> None:
        self.close()


def install_context(
    num_workers: int = 1,
    *,
    num_subrounds: int | None = None,
    max_concurrent_clients: int | None = None,
    threads_per_worker: int | None = None,
    max_restarts: int = 3,
    max_attempts: int = 5,
    start_timeout_seconds: float = 60.0,
    log_directory: str | os.PathLike[str] | None = None,
) -> InstalledContext:
    """Starts workers and makes them TFF's default context of this thread.

    Args:
      num_workers: Worker processes, >= 1.
      num_subrounds: Parts of a round, >= 1; results depend on it to the last bit (a sum is
        grouped differently), so fix it when runs on different machines are compared. None:
        `num_workers`.
      max_concurrent_clients: Clients at a time in each worker, >= 1; None: the workers' share of
        the cores.
      threads_per_worker: TensorFlow threads of one operation, >= 1; None: 1. Clients side by side
        with single-threaded kernels beat threads inside a client's thin matrix products, and a
        result that depends on no number of cores can be computed again anywhere.
      max_restarts: Times a dead worker is started again, over the whole training.
      max_attempts: Times one computation is tried before the training ends with an error, >= 1.
      start_timeout_seconds: Deadline for a worker to listen.
      log_directory: Gets `worker_0.log`, ...; None: no logs.

    Raises:
      ValueError: An argument is out of range.
      WorkerError: A worker does not start.
    """
    num_subrounds = num_workers if num_subrounds is None else num_subrounds
    for name, value in [
        ("num_workers", num_workers),
        ("num_subrounds", num_subrounds),
        ("max_attempts", max_attempts),
    ]:
        if value < 1:
            raise ValueError(f"`{name}` must be >= 1, got {value}.")
    if max_concurrent_clients is None:
        max_concurrent_clients = max(1, len(os.sched_getaffinity(0)) // num_workers)
    pool = WorkerPool(
        num_workers,
        log_directory=log_directory,
        max_restarts=max_restarts,
        max_concurrent_clients=max_concurrent_clients,
        threads=1 if threads_per_worker is None else threads_per_worker,
        start_timeout_seconds=start_timeout_seconds,
    )
    contexts = [WorkerContext(pool, i, max_attempts) for i in range(num_workers)]
    if num_subrounds == 1:
        installed = InstalledContext(pool, contexts[0], None, lambda: None)
    else:
        merging = OrderedMergeContext(contexts, num_subrounds)
        installed = InstalledContext(pool, merging, merging.pop_aggregation_seconds, merging.close)
    tff.framework.set_default_context(installed.context)
    return installed
