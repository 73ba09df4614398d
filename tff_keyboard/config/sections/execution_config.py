"""`[execution]`: the machines that compute a run, and how its clients are packed."""

import dataclasses
from typing import Literal

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage.checks import FromOne, FromZero


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterConfig(Table, path="execution.cluster"):
    """The Ray cluster for `execution.engine` = "ray"; see docs/cluster.md. Never changes results.

    Attributes:
      address: HOST:PORT of the head; "" uses RAY_ADDRESS; "local" starts a cluster of one node on
        this machine.
      min_nodes: Nodes to wait for before the first round.
      max_nodes: Maximum number of nodes, so that several trainings can share a cluster; 0 means
        all.
      wait_seconds: Time to wait for `min_nodes` nodes, and for any node if all are lost.
      max_losses: Number of lost nodes that the whole training tolerates, including nodes that
        return.
      allow_nondeterminism: Whether nodes may have another processor or other code than this
        machine. The last bits of results then depend on the nodes that computed them.
    """

    address: str = ""
    min_nodes: FromOne = 1
    max_nodes: int = 0
    wait_seconds: float = 120.0
    max_losses: FromZero = 20
    allow_nondeterminism: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.max_nodes == 0 or self.max_nodes >= self.min_nodes,
            "max_nodes",
            "must be 0 or >= `execution.cluster.min_nodes`",
        )
        self.require(self.wait_seconds > 0, "wait_seconds", "must be > 0")  # infinity waits forever


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutionConfig(Table, path="execution"):
    """The machines and threads that compute a run.

    Attributes:
      engine: "local" computes on this machine, "ray" on the nodes of a cluster, with identical
        results.
      cluster: The cluster to compute on.
      threads: Packs of clients that are computed at once, on this machine or on each node; 0 means
        the number of available processors. It changes the memory use, not the results.
      clients_per_pack: Maximum number of clients that one TensorFlow call trains, one after the
        other. Results depend on it only through the order of floating-point sums. 0 means 16 packs
        per round, or one pack per client if the round has fewer clients.
    """

    engine: Literal["local", "ray"] = "local"
    cluster: ClusterConfig = dataclasses.field(default_factory=ClusterConfig)
    threads: FromZero = 0
    clients_per_pack: FromZero = 0
