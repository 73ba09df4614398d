"""Computes jobs on the nodes of a Ray cluster.

Each node has one actor. If the actor's process dies, Ray restarts it and repeats its items. If a
whole node is lost, its items go to other nodes.

All calls of Ray are made in one separate thread. A signal handler that raises inside Ray would turn
into a different error, so the main thread only waits for results, and there SIGINT and SIGTERM may
raise.
"""

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Generator, Mapping
from concurrent import futures
from typing import Any

from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.execution.cluster import node_facts, ray_client, security
from tff_keyboard.execution.cluster.node import Node
from tff_keyboard.execution.engine import Job
from tff_keyboard.storage.errors import ClusterError

_WAIT_SECONDS = 0.5
_END_SECONDS = 5.0
_TRIES_OF_AN_ITEM = 3  # on one node, each in a new process


@dataclasses.dataclass
class _Member:
    """A node of the cluster that computes for this engine.

    Attributes:
      name: Name of the node, for messages.
      actor: The Ray actor on the node.
      threads: Number of items that the node computes at a time.
      items: Reference of the result -> position of the item, for the running items.
    """

    name: str
    actor: Any
    threads: int
    items: dict[Any, int]  # reference of the result -> position of the item


class RayEngine:
    """An `execution.engine.Engine` that computes on a cluster.

    Args:
      cluster: The cluster's address and requirements.
      files: Name -> path of the files that must be the same on every node.
      threads: Items at a time on each node; 0 means the number of its cores.
      tell: Called with a sentence when nodes are lost or refused.

    Raises `ClusterError` if the cluster cannot be used, or too few nodes fit.
    """

    def __init__(
        self,
        cluster: ClusterConfig,
        files: Mapping[str, str],
        *,
        threads: int = 0,
        tell: Callable[[str], None] = print,
    ):
        self._cluster, self._files, self._threads, self._tell = cluster, files, threads, tell
        self._members: dict[str, _Member] = {}
        self._refused: dict[str, str] = {}
        self._functions: dict[str, Any] = {}
        self._losses = 0
        self._is_closed = False
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="ray")
        self._ray = ray_client.join(security.address_of(cluster.address))
        self._own_facts = node_facts.facts(files)
        try:
            self._in_thread(self._gather, cluster.min_nodes)
        except BaseException:
            self.close()
            raise

    def run(self, job: Job) -> Generator[tuple[int, Any], None, None]:
        """See `Engine.run`."""
        function = self._in_thread(self._sent_function, job)
        shared = self._in_thread(self._ray.put, job.shared)
        waiting = collections.deque(range(len(job.items)))
        items_left = len(job.items)
        try:
            while items_left:
                results = self._in_thread(self._step, job, function, shared, waiting)
                items_left -= len(results)
                yield from results
        finally:
            if items_left:
                self._in_thread(self._drop_items)

    def close(self) -> None:
        """See `Engine.close`. Ends a cluster only if it was started here."""
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(futures.TimeoutError):
            self._thread.submit(lambda: None).result(_END_SECONDS)  # after the call that still runs
        self._thread.shutdown(wait=False, cancel_futures=True)
        ray_client.leave(self._ray)  # this also ends the actors

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._thread.submit(function, *arguments).result()

    def _sent_function(self, job: Job) -> Any:
        key = job.function.key
        if key not in self._functions:
            self._functions[key] = self._ray.put(job.function)
        return self._functions[key]

    def _step(
        self, job: Job, function: Any, shared: Any, waiting: collections.deque[int]
    ) -> list[tuple[int, Any]]:
        """Sends items to free nodes, and returns the results that are ready."""
        self._gather(1)
        for member in self._members.values():
            while waiting and len(member.items) < member.threads:
                position = waiting.popleft()
                reference = member.actor.compute.remote(
                    job.function.key, [function], [shared], job.items[position]
                )
                member.items[reference] = position
        running = {ref: node for node, member in self._members.items() for ref in member.items}
        ready, _ = self._ray.wait(
            list(running), num_returns=1, timeout=_WAIT_SECONDS, fetch_local=True
        )
        results = []
        for reference in ready:
            if running[reference] not in self._members:
                continue  # its node was just found lost with another item
            member = self._members[running[reference]]
            try:
                results.append((member.items[reference], self._ray.get(reference)))
            except (
                self._ray.exceptions.RayActorError,
                # The node was lost while Ray restarted the actor there.
                self._ray.exceptions.ActorUnschedulableError,
            ):
                waiting.extendleft(sorted(member.items.values(), reverse=True))
                self._lose(running[reference])
                continue
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            del member.items[reference]
        return results

    def _drop_items(self) -> None:
        for member in self._members.values():
            for reference in member.items:
                self._ray.cancel(reference, force=False)
            member.items.clear()

    def _lose(self, node: str) -> None:
        """Counts a lost node. Raises `ClusterError` if too many were lost."""
        member = self._members.pop(node)
        self._losses += 1
        self._tell(f"Node {member.name} is lost. Other nodes repeat its work.")
        if self._losses > self._cluster.max_losses:
            raise ClusterError(
                f"{self._losses} nodes were lost, more than `execution.cluster.max_losses` = "
                f"{self._cluster.max_losses}. Run the same command again to resume from the last "
                "checkpoint."
            )

    def _gather(self, min_nodes: int) -> None:
        """Takes available nodes, and waits until there are at least `min_nodes`."""
        deadline = time.monotonic() + self._cluster.wait_seconds
        while True:
            self._look_for_nodes()
            if len(self._members) >= min_nodes or self._is_closed:
                return
            if time.monotonic() > deadline:
                refused = " ".join(sorted(self._refused.values()))
                problem = (
                    f"{len(self._members)} of {min_nodes} nodes were ready within "
                    f"`execution.cluster.wait_seconds` = {self._cluster.wait_seconds:g}."
                )
                raise ClusterError(f"{problem} {refused}".rstrip())
            time.sleep(_WAIT_SECONDS)

    def _look_for_nodes(self) -> None:
        """Adds nodes that joined the cluster, up to `max_nodes`.

        A node that differs from this machine is refused and reported once, until it leaves the
        cluster.
        """
        max_nodes = self._cluster.max_nodes
        live_nodes = ray_client.live_nodes(self._ray)
        for node in self._refused.keys() - live_nodes.keys():
            del self._refused[node]  # it may return without the difference
        old_nodes = {*self._members, *self._refused}
        free = ray_client.free_nodes(self._ray) if live_nodes.keys() - old_nodes else set()
        for node, name in live_nodes.items():
            if (
                node in old_nodes
                or node not in free
                or (max_nodes and len(self._members) >= max_nodes)
            ):
                continue
            refusal = self._take(node, name)
            if refusal:
                self._refused[node] = refusal
                self._tell(refusal)

    def _take(self, node: str, name: str) -> str:
        """Takes a node into use. Returns the reason if it is refused, else ""."""
        asked = ray_client.ask_for_facts(self._ray, node, self._files)
        try:
            facts = self._ray.get(asked, timeout=ray_client.ANSWER_SECONDS)
        except self._ray.exceptions.RayError as error:
            return f"Node {name} does not answer: {(str(error).splitlines() or [''])[-1][:200]}"
        lenient = self._cluster.allow_nondeterminism
        differences = node_facts.differences(self._own_facts, facts, lenient=lenient)
        if differences:
            return f"Node {name} cannot be used: {'; '.join(differences)}."
        threads = self._threads or int(facts[node_facts.CORES])
        actor = (
            self._ray.remote(Node)
            .options(
                **ray_client.on_node(node),
                resources={ray_client.RESOURCE: 1},
                max_concurrency=threads,
                max_restarts=self._cluster.max_losses,
                max_task_retries=_TRIES_OF_AN_ITEM,
            )
            .remote()
        )
        self._members[node] = _Member(name, actor, threads, {})
        return ""
