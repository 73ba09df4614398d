"""Describes a cluster without computing on it: its nodes, who uses them, and whether they fit."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tff_keyboard.program.cluster import node_facts, ray_client, security

_ANSWER_SECONDS = 120.0  # a node starts a process to answer


@dataclasses.dataclass(frozen=True)
class NodeStatus:
    """A node with our resource."""

    name: str
    used_by: str  # "nobody", or "a training"
    differences: tuple[str, ...]  # differences from here, as `node_facts.differences` says them


def look(address: str, files: Mapping[str, str]) -> list[NodeStatus]:
    """Asks every node of a cluster."""
    ray = ray_client.join(security.address_of(address))
    try:
        names = ray_client.live_nodes(ray)
        ask = ray.remote(node_facts.facts)
        asked = {
            node_id: ask.options(**ray_client.on_node(node_id), max_retries=0).remote(dict(files))
            for node_id in names
        }
        free = ray_client.free_nodes(ray)
        own = node_facts.facts(files)
        return [
            NodeStatus(
                name,
                "nobody" if node_id in free else "a training",
                _differences(ray, own, asked[node_id]),
            )
            for node_id, name in sorted(names.items(), key=lambda item: item[1])
        ]
    finally:
        ray.shutdown()


def _differences(ray: Any, own: Mapping[str, str], reference: Any) -> tuple[str, ...]:
    try:
        other = ray.get(reference, timeout=_ANSWER_SECONDS)
    except ray.exceptions.GetTimeoutError:
        return (f"no answer within {_ANSWER_SECONDS:g} s",)
    except ray.exceptions.RayError as error:
        return (f"cannot answer: {(str(error).splitlines() or [''])[-1][:200]}",)
    return tuple(node_facts.differences(own, other, lenient=False))
