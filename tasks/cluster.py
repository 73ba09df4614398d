"""Shows the nodes of a Ray cluster, and whether each of them can compute for this machine.

tff-keyboard cluster status [--address=HOST:PORT] [--store=data/sms]

Prints a line for each node that has the resource `tff_keyboard`: whether it is free, and what
differs from this machine (Python, packages, our code, instruction set, the store). docs/cluster.md
says how a cluster is started. The exit code is 5 if a node would be refused, or if there is none.
"""

import dataclasses
import pathlib
from typing import Annotated, Literal

from tasks.options import TaskOptions, Words
from tff_keyboard.storage.errors import CheckFailed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    action: Annotated[Literal["status"], Words("what to do: status")]
    address: Annotated[str, "HOST:PORT of the head, or local; the default is RAY_ADDRESS."] = ""
    store: Annotated[
        pathlib.Path | None, "Client store that every node must have; by default none is checked."
    ] = None


def run(options: Options) -> None:
    """Asks every node and prints a table.

    Raises:
      ClusterError: The cluster cannot be joined.
      CheckFailed: A node would be refused, or there is none.
    """
    from tff_keyboard.program.cluster import cluster_status
    from tff_keyboard.storage import names
    from tff_keyboard.text_table import aligned

    files = {}
    if options.store is not None:
        files = {f"store {options.store.name}": str(options.store.absolute() / names.DATA_CARD)}
    nodes = cluster_status.look(options.address, files)
    rows = [(node.name, node.used_by, "; ".join(node.differences) or "yes") for node in nodes]
    print(aligned([("node", "computes for", "fits"), *rows], left=3))
    if not nodes:
        raise CheckFailed("No node of the cluster computes. docs/cluster.md says how to start one.")
    refused = sum(bool(node.differences) for node in nodes)
    if refused:
        raise CheckFailed(f"{refused} of {len(nodes)} nodes would be refused.")
