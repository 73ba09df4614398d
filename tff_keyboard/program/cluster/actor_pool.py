"""The nodes of a cluster as they come and go: an actor on each, checked before it is given work.

Ray's own retries are off: they wait for ever when no node fits, and would not let us choose one.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import Any

from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.program.cluster import node_facts, ray_client
from tff_keyboard.program.cluster.node import NodeOptions, NodeServer, NodeStart
from tff_keyboard.program.errors import ClusterError, ProgramError, WorkerError
from tff_keyboard.storage.errors import UserError

_LOOK_SECONDS = 1.0  # between looks at who is there
_CLAIM_SECONDS = 30.0  # a node that another training was quicker to take is left after that
_LEFTOVER_SECONDS = 600.0  # a node that still computes what nobody needs is given up


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a computation ended."""

    ticket: Any
    node: str
    # result and seconds, as `NodeServer.compute` returns them; None without
    value: tuple[Any, float] | None = None
    error: Exception | None = None  # what the item raised; None where the node was lost


@dataclasses.dataclass
class _Member:
    node_id: str
    name: str
    actor: Any
    slots: int
    since: float
    is_ready: bool = False


class ActorPool:
    """Actors on all nodes that fit. Used by one thread."""

    def __init__(
        self, ray: Any, cluster: ClusterConfig, options: NodeOptions, files: Mapping[str, str]
    ):
        self._ray = ray
        self._cluster = cluster
        self._options = options
        self._files = dict(files)
        self._own_facts = node_facts.facts(files)
        self._members: dict[str, _Member] = {}
        self._joining: dict[Any, tuple[_Member, str]] = {}  # reference -> what it answers
        self._running: dict[Any, _Member] = {}
        self._left: dict[Any, float] = {}  # nobody waits for these any more, since when
        self._refused: dict[str, str] = {}
        self._losses: list[str] = []
        self._next_look = 0.0
        self._patience = _CLAIM_SECONDS
        self._empty_since = time.monotonic()
        self.events: list[tuple[float, str]] = []

    def ready(self) -> list[str]:
        """Names of the nodes that compute."""
        return [member.name for member in self._members.values() if member.is_ready]

    def absences(self) -> list[str]:
        """Why nodes that are there do not compute, a sentence each."""
        why = (
            "is still starting (it imports TensorFlow: 20 CPU seconds) or works for another "
            "training; raise `execution.cluster.wait_seconds` or wait for that one."
        )
        starting = [member.name for member in self._members.values() if not member.is_ready]
        return [*self._refused.values(), *(f"{name} {why}" for name in starting)]

    def look_for_nodes(self) -> None:
        """Puts an actor on every node that has none."""
        now = time.monotonic()
        self._left = {t: since for t, since in self._left.items() if t in self._running}
        for ticket, since in self._left.items():
            if now - since > _LEFTOVER_SECONDS:
                self.give_up_on(ticket)
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        live = ray_client.live_nodes(self._ray)
        for node_id in self._wanted(live.keys() - self._members.keys() - self._refused.keys()):
            options = ray_client.on_node(node_id) | {"resources": {ray_client.RESOURCE: 1}}
            options |= {"max_restarts": 0, "max_task_retries": 0}
            options["max_concurrency"] = self._options.workers + 1
            actor = self._ray.remote(NodeServer).options(**options).remote(self._options)
            member = _Member(node_id, live[node_id], actor, self._options.workers, now)
            self._members[node_id] = member
            self._joining[actor.facts.remote(self._files)] = member, "facts"
        if self._members:
            self._empty_since = now
        elif now - self._empty_since > self._cluster.wait_seconds:
            raise ClusterError(f"There is no node to compute on. {self._way_out()}")

    def _wanted(self, others: set[str]) -> list[str]:
        """Which of the nodes that are there to take: all, or so many that nobody else uses."""
        if not self._cluster.max_nodes or not others:
            return sorted(others)
        free = sorted(others & ray_client.free_nodes(self._ray))
        if len(free) and len(self._members) >= self._cluster.max_nodes:
            self._leave_a_queue()
        return free[: max(0, self._cluster.max_nodes - len(self._members))]

    def _leave_a_queue(self) -> None:
        """Gives up a node that does not answer, as where somebody else has it: another is free.

        Each time the patience doubles: it may be slow to start, too.
        """
        for member in self._members.values():
            if time.monotonic() - member.since > self._patience and not member.is_ready:
                self._patience *= 2
                del self._members[member.node_id]
                self._kill(member)
                return

    def free_slots(self) -> list[str]:
        """Ids of nodes that could begin an item now, once for each item."""
        busy = [id(member) for member in self._running.values()]
        ready = [member for member in self._members.values() if member.is_ready]
        slots = {member.node_id: member.slots - busy.count(id(member)) for member in ready}
        most = max(slots.values(), default=0)  # a first item for each node, then second ones
        return [node_id for i in range(most) for node_id, free in slots.items() if free > i]

    def send(self, node_id: str, key: str, function: Any, shared: Any, item: Any) -> Any:
        """Has a node compute an item; returns the ticket, None where the node was just lost."""
        member = self._members.get(node_id)
        if member is None:
            return None
        try:
            ticket = member.actor.compute.remote(key, [function], shared, item)
        except self._ray.exceptions.RayError as error:
            self._lose(member, error)
            return None
        self._running[ticket] = member
        return ticket

    def leave(self, tickets: Iterable[Any]) -> None:
        """Nobody waits for these any more; their nodes are busy until they end."""
        self._left |= dict.fromkeys(tickets, time.monotonic())

    def give_up_on(self, ticket: Any) -> None:
        """Ends the node that hangs over an item; its outcome comes as that of a lost node."""
        if ticket in self._running:
            self._lose(self._running[ticket], TimeoutError("does not answer"))

    def wait(self, seconds: float) -> list[Outcome]:
        """What ended meanwhile; nodes that became ready are seen by `free_slots`."""
        references = [*self._joining, *self._running]
        if not references:
            time.sleep(min(seconds, _LOOK_SECONDS / 4))
            return []
        done, _ = self._ray.wait(references, num_returns=1, timeout=seconds)
        outcomes = []
        for reference in done:
            if reference in self._joining:
                self._join(reference)
            elif reference in self._running:
                outcomes.append(self._outcome(reference))
        return outcomes

    def close(self) -> None:
        """Ends all actors."""
        for member in self._members.values():
            self._kill(member)
        self._members.clear()

    def _join(self, reference: Any) -> None:
        member, question = self._joining.pop(reference)
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            return self._refuse(member, f"does not start: {_cause(error)}")
        except self._ray.exceptions.RayError as error:
            return self._lose(member, error)
        if question == "facts":
            found = node_facts.differences(
                self._own_facts, answer, lenient=self._cluster.allow_other_bits
            )
            if found:
                return self._refuse(member, f"is not as this machine: {'; '.join(found)}")
            self._joining[member.actor.start.remote()] = member, "start"
            return None
        assert isinstance(answer, NodeStart)
        member.is_ready = True
        member.name = f"{answer.host}/{member.node_id[:6]}"
        self._note(f"{member.name} joined after {answer.seconds:.1f} s")
        return None

    def _outcome(self, ticket: Any) -> Outcome:
        member = self._running.pop(ticket)
        try:
            value = self._ray.get(ticket)
        except self._ray.exceptions.RayTaskError as error:
            cause = _cause(error)
            if isinstance(cause, WorkerError):  # it has none left: a new actor starts new ones
                self._lose(member, cause)
            return Outcome(ticket, member.name, error=cause)
        except self._ray.exceptions.RayError as error:
            self._lose(member, error)
            return Outcome(ticket, member.name)
        return Outcome(ticket, member.name, value)

    def _lose(self, member: _Member, error: Exception) -> None:
        if self._members.get(member.node_id) is not member:  # lost already, there may be a new one
            return
        del self._members[member.node_id]
        self._kill(member)
        self._losses.append(f"{member.name}: {_first_line(error)}")
        self._note(f"{member.name} lost: {_first_line(error)}")
        if len(self._losses) > self._cluster.max_losses:
            raise ClusterError(
                f"{len(self._losses)} nodes were lost, more than `execution.cluster.max_losses` = "
                f"{self._cluster.max_losses}; the last one: {self._losses[-1]}."
            ) from error

    def _refuse(self, member: _Member, why: str) -> None:
        if self._members.pop(member.node_id, None) is not None:
            self._kill(member)
        self._refused[member.node_id] = f"{member.name} {why}."
        self._note(self._refused[member.node_id])

    def _kill(self, member: _Member) -> None:
        with contextlib.suppress(Exception):  # it may be gone, and the cluster too
            self._ray.kill(member.actor)

    def _note(self, event: str) -> None:
        self.events.append((time.time(), event))

    def _way_out(self) -> str:
        if self._refused:
            return " ".join(self._refused.values())
        return (
            "Start one: `ray start --address=HEAD:PORT --resources='"
            f'{{"{ray_client.RESOURCE}": 1}}' + "'`; docs/cluster.md has the rest."
        )


def _cause(error: Any) -> Exception:
    """What a node raised, without Ray's pages around it."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UserError):
        return cause
    return ProgramError(f"A node reports: {_first_line(cause or error)}")


def _first_line(error: Any) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}{': ' if lines else ''}{lines[0][:300] if lines else ''}"
