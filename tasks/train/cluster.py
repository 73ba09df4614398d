"""Lists the nodes of a Ray cluster, and whether this machine can use them.

tff-keyboard cluster [--address=HOST:PORT] [--store=data/sms]

Prints one line for each node that offers the resource `tff_keyboard`: whether it is free, and how
it differs from this machine (Python, packages, tff-keyboard's code, instruction set, client store).
The exit code is 5 if a node differs, or if there is no node. docs/cluster.md describes how to start
a cluster.
"""

import dataclasses
import pathlib
from typing import Annotated

from tff_keyboard.command_line.options import TaskOptions
from tff_keyboard.storage.errors import CheckFailed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `cluster`."""

    address: Annotated[str, "HOST:PORT of the head, or `local`. Default: RAY_ADDRESS."] = ""
    store: Annotated[
        pathlib.Path | None, "Client store that every node must have. Default: not checked."
    ] = None


def run(options: Options) -> None:
    """Asks every node and prints the table.

    Raises:
      ClusterError: If this machine cannot join the cluster.
      CheckFailed: If a node cannot be used, or if there is none.
    """
    from tff_keyboard.execution.cluster import cluster_status
    from tff_keyboard.host.text_table import aligned
    from tff_keyboard.storage import names

    files = {}
    if options.store is not None:
        files = {f"store {options.store.name}": str(options.store.absolute() / names.DATA_CARD)}
    nodes = cluster_status.look(options.address, files)
    rows = [(node.name, node.used_by, "; ".join(node.differences) or "yes") for node in nodes]
    print(aligned([("node", "used by", "usable"), *rows], left=3))
    if not nodes:
        raise CheckFailed(
            "The cluster has no node for tff-keyboard. See docs/cluster.md to start one."
        )
    refused = sum(bool(node.differences) for node in nodes)
    if refused:
        raise CheckFailed(
            f"{refused} of {len(nodes)} nodes cannot be used. The table lists the differences."
        )
