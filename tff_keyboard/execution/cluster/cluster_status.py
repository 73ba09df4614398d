"""Describes a cluster without computing on it: its nodes, their use, and their differences."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tff_keyboard.execution.cluster import node_facts, ray_client, security


@dataclasses.dataclass(frozen=True)
class NodeStatus:
    """The status of one node that offers the `tff_keyboard` resource."""

    name: str
    used_by: str  # "-" if the node is free, or "a training"
    differences: tuple[str, ...]  # from this machine, as from `node_facts.differences`


def look(address: str, files: Mapping[str, str]) -> list[NodeStatus]:
    """Asks every node of a cluster for its status.

    Args:
      address: HOST:PORT of the head, or "local".
      files: Name -> path of the files that must be the same on every node.
    """
    ray = ray_client.join(security.address_of(address))
    try:
        names = ray_client.live_nodes(ray)
        asked = {node_id: ray_client.ask_for_facts(ray, node_id, files) for node_id in names}
        free = ray_client.free_nodes(ray)
        driver_facts = node_facts.facts(files)
        return [
            NodeStatus(
                name,
                "-" if node_id in free else "a training",
                _differences(ray, driver_facts, asked[node_id]),
            )
            for node_id, name in sorted(names.items(), key=lambda item: item[1])
        ]
    finally:
        ray_client.leave(ray)


def _differences(ray: Any, driver_facts: Mapping[str, str], reference: Any) -> tuple[str, ...]:
    """Returns the differences between a node and this machine, or why the node cannot answer."""
    try:
        node_facts_of_node = ray.get(reference, timeout=ray_client.ANSWER_SECONDS)
    except ray.exceptions.GetTimeoutError:
        return (f"no answer within {ray_client.ANSWER_SECONDS:g} s",)
    except ray.exceptions.RayError as error:
        return (f"cannot answer: {(str(error).splitlines() or [''])[-1][:200]}",)
    return tuple(node_facts.differences(driver_facts, node_facts_of_node, lenient=False))
