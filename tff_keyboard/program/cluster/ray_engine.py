"""Computes jobs on the nodes of a Ray cluster; the driver keeps the queue.

All of Ray is used in one thread of our own: a signal handler that raises inside of Ray would come
out as another error, so the main thread only waits for results, where SIGINT and SIGTERM may raise.
"""

import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent import futures
from typing import Any

from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.program.cluster import ray_client, security
from tff_keyboard.program.cluster.actor_pool import ActorPool, Outcome
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.schedule import Schedule
from tff_keyboard.program.engines.engine import Job
from tff_keyboard.program.errors import ClusterError, ProgramError

_WAIT_SECONDS = 0.5
_END_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Span:
    """One computation of an item, for timings.

    Attributes:
      start, end: Seconds since the epoch, by the driver's clock; `end - start` has passed, also
        where that clock was set in between.
      compute_seconds: Seconds on the node; None where it was lost.
      outcome: "done", "late" (another node was first), "failed" or "lost".
    """

    node: str
    item: int
    start: float
    end: float
    compute_seconds: float | None
    outcome: str


class RayEngine:
    """An `engine.Engine` on a cluster.

    A `ClusterError` says why the cluster cannot be used, or that too few nodes fit.
    """

    def __init__(self, cluster: ClusterConfig, options: NodeOptions, files: Mapping[str, str]):
        self._cluster = cluster
        self._functions: dict[str, Any] = {}
        self._spans: list[Span] = []
        self._stop = threading.Event()
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="ray-engine")
        self._ray = ray_client.join(security.address_of(cluster.address))
        try:
            self._pool = ActorPool(self._ray, cluster, options, files)
            self._thread.submit(self._gather).result()
        except BaseException:
            self.close()
            raise

    def run(self, job: Job) -> Generator[tuple[int, Any], None, None]:
        """See `Engine.run`."""
        results: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        stop = threading.Event()
        future = self._thread.submit(self._serve, job, results.put, stop)
        future.add_done_callback(lambda _: results.put(None))
        try:
            while (found := results.get()) is not None:
                yield found
            future.result()
        finally:
            stop.set()

    def place_names(self) -> Sequence[str]:
        """Names of the nodes that are ready; see `Engine.place_names`."""
        return self._pool.ready()

    def pop_spans(self) -> list[Span]:
        """What was computed since this was last asked."""
        spans, self._spans = self._spans, []
        return spans

    def pop_events(self) -> list[tuple[float, str]]:
        """Time and sentence of nodes that came and went since this was last asked."""
        events, self._pool.events = self._pool.events, []
        return events

    def close(self) -> None:
        """See `Engine.close`; the cluster goes on, one that was started here ends."""
        if self._stop.is_set():
            return
        self._stop.set()
        with contextlib.suppress(futures.TimeoutError):
            self._thread.submit(lambda: None).result(_END_SECONDS)  # behind what still runs
        self._thread.shutdown(wait=False, cancel_futures=True)
        if hasattr(self, "_pool"):
            self._pool.close()
        self._ray.shutdown()

    def _gather(self) -> None:
        """Waits for the nodes to begin with."""
        deadline = time.monotonic() + self._cluster.wait_seconds
        while len(self._pool.ready()) < self._cluster.min_nodes and not self._stop.is_set():
            self._pool.look_for_nodes()
            self._pool.wait(_WAIT_SECONDS)
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{len(self._pool.ready())} of {self._cluster.min_nodes} nodes were ready "
                    f"within `execution.cluster.wait_seconds` = {self._cluster.wait_seconds:g}. "
                    f"{' '.join(self._pool.absences())}".rstrip()
                )

    def _serve(
        self, job: Job, put: Callable[[tuple[int, Any]], None], stop: threading.Event
    ) -> None:
        """The loop of a job, in the thread of Ray."""
        key = job.function.key
        if key not in self._functions:
            self._functions[key] = self._ray.put(job.function)
        shared = self._ray.put(job.shared)
        schedule = Schedule(len(job.items))
        positions: dict[Any, tuple[int, float, float]] = {}
        while not (schedule.is_done or stop.is_set() or self._stop.is_set()):
            self._pool.look_for_nodes()
            for node_id in self._pool.free_slots():
                start, now = time.time(), time.monotonic()  # before the node can begin
                position = schedule.next_item(now)
                if position is None:
                    break
                ticket = self._pool.send(
                    node_id, key, self._functions[key], shared, job.items[position]
                )
                if ticket is None:
                    schedule.put_back(position)
                    continue
                schedule.begin(ticket, position, now)
                positions[ticket] = position, start, now
            for ticket in schedule.hung(time.monotonic()):
                self._pool.give_up_on(ticket)
            for outcome in self._pool.wait(_WAIT_SECONDS):
                if outcome.ticket in positions:  # else of a job before this one
                    self._take(outcome, schedule, *positions.pop(outcome.ticket), put)
        self._pool.leave(positions)

    def _take(
        self,
        outcome: Outcome,
        schedule: Schedule,
        position: int,
        start: float,
        begun: float,
        put: Callable[[tuple[int, Any]], None],
    ) -> None:
        seconds, how = None, "lost"
        if outcome.value is not None:
            result, seconds = outcome.value
            is_first = schedule.finish(outcome.ticket, time.monotonic()) is not None
            how = "done" if is_first else "late"
            if is_first:
                put((position, result))
        elif outcome.error is None:
            schedule.lose(outcome.ticket)
        else:
            how = "failed"
            goes_on = schedule.fail(outcome.ticket)
            may_pass = isinstance(outcome.error, ProgramError)  # not so the data or the config
            if not (goes_on and may_pass):
                raise outcome.error
        end = start + time.monotonic() - begun
        self._spans.append(Span(outcome.node, position, start, end, seconds, how))
