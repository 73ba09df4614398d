"""What runs on a node: an actor that owns the TFF workers of its machine and computes items.

The module imports neither Ray nor TFF, because the driver sends the class by its name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tff_keyboard.program.cluster import node_facts
from tff_keyboard.program.errors import ProgramError

if TYPE_CHECKING:
    import tensorflow_federated as tff

    from tff_keyboard.program.engines.engine import Function


@dataclasses.dataclass(frozen=True)
class NodeOptions:
    """How the workers of a node are started; see `execution.install_context`.

    `at_once` is whether they are when the node joins; else when an item first needs TFF.
    """

    workers: int = 1
    max_concurrent_clients: int | None = None
    threads_per_worker: int = 1
    at_once: bool = True


@dataclasses.dataclass(frozen=True)
class NodeStart:
    """A node that is ready."""

    host: str
    pid: int
    seconds: float


class NodePlace:
    """A worker of the node, an `engine.Place`."""

    def __init__(self, server: NodeServer, position: int):
        self._server = server
        self._position = position

    @property
    def context(self) -> tff.framework.SyncContext:
        return self._server.contexts()[self._position]


class NodeServer:
    """The actor's class. `start` comes first; `compute` runs in as many threads as workers."""

    def __init__(self, options: NodeOptions):
        self._options = options
        self._lock = threading.Lock()
        self._contexts: Sequence[tff.framework.SyncContext] = ()
        self._places: queue.SimpleQueue[NodePlace] = queue.SimpleQueue()
        for position in range(options.workers):
            self._places.put(NodePlace(self, position))
        self._functions: dict[str, Function] = {}

    def contexts(self) -> Sequence[tff.framework.SyncContext]:
        """TFF on each worker; the first call takes ten seconds and more."""
        with self._lock:
            if not self._contexts:
                self._contexts = self._start_workers()
        return self._contexts

    def _start_workers(self) -> Sequence[tff.framework.SyncContext]:
        from tff_keyboard.host import quiet

        quiet.import_tensorflow_federated()
        from tff_keyboard.program.workers import worker_context, worker_copy

        _, contexts = worker_context.start_workers(
            self._options.workers,
            max_concurrent_clients=self._options.max_concurrent_clients,
            threads_per_worker=self._options.threads_per_worker,
            log_directory=worker_copy.cache_directory() / "node-logs",
        )
        return contexts

    def facts(self, files: Mapping[str, str]) -> dict[str, str]:
        """Facts of this node; see `node_facts.facts`."""
        return node_facts.facts(files)

    def start(self) -> NodeStart:
        """Gets ready."""
        begin = time.monotonic()
        if self._options.at_once:
            self.contexts()
        return NodeStart(socket.gethostname(), os.getpid(), time.monotonic() - begin)

    def compute(self, key: str, function: list[Any], shared: Any, item: Any) -> tuple[Any, float]:
        """The result of an item and the seconds it took.

        A `ProgramError` if a worker reports an error, or all have died.
        """
        begin = time.monotonic()
        if key not in self._functions:
            import ray

            self._functions[key] = ray.get(function[0])
        place = self._places.get()
        try:
            with _one_line_errors():
                result = self._functions[key](place, shared, item)
        finally:
            self._places.put(place)
        return result, time.monotonic() - begin


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """gRPC's errors do not pickle, and have pages of text."""
    try:
        yield
    except Exception as error:
        grpc = sys.modules.get("grpc")  # where it was not imported, the error is not its
        if grpc is None or not isinstance(error, grpc.RpcError):
            raise
        details = error.details() if isinstance(error, grpc.Call) else str(error)
        line = (details or "no details").splitlines()[0][:300]
        raise ProgramError(f"A TFF worker on {socket.gethostname()} reports: {line}") from None
