"""`[execution]`: where a run is computed, and into which parts it is cut."""

import dataclasses
from typing import Literal

from tff_keyboard.config.reading.checks import FromOne, FromZero
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterConfig(Table, path="execution.cluster"):
    """The Ray cluster of `execution.engine` = "ray"; docs/cluster.md. Never changes results.

    Attributes:
      address: HOST:PORT of the head; "" means what RAY_ADDRESS says; "local" starts a cluster of
        one node on this machine.
      min_nodes: Nodes to wait for before the first round.
      max_nodes: Nodes used at most, so that several trainings share a cluster; 0 means all.
      wait_seconds: How long to wait for them, and for any node when all are lost.
      max_losses: Nodes that may be lost over the whole training, those that come back included.
      allow_other_bits: Takes nodes whose processor or code differs from this machine's: results
        then depend on who computed what, in the last bits.
    """

    address: str = ""
    min_nodes: FromOne = 1
    max_nodes: int = 0
    wait_seconds: float = 120.0
    max_losses: FromZero = 20
    allow_other_bits: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.max_nodes == 0 or self.max_nodes >= self.min_nodes,
            "max_nodes",
            "must be 0 or >= `execution.cluster.min_nodes`",
        )
        self.require(self.wait_seconds > 0, "wait_seconds", "must be > 0")  # infinity is for ever


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutionConfig(Table, path="execution"):
    """Workers, threads, parts.

    Attributes:
      engine: "local" computes on this machine, "ray" on the nodes of a cluster, with the same bits.
      cluster: The cluster to compute on.
      workers: TFF worker processes, on this machine or on each node.
      threads_per_worker: Threads inside one TensorFlow operation; 0 means 1, which is fastest where
        there are as many clients as cores.
      max_concurrent_clients: Clients a worker trains at once; 0 means its share of the cores.
      sub_rounds: Parts a round is cut into, merged in order; results depend on it only through
        the order of floating-point sums, and not at all on `workers` or on nodes. 0 means
        `workers`, 16 on a cluster; where clients come one by one, parts of 40 clients if that is
        more, because a worker then holds all their deltas in memory (27 MB each for the Gboard
        CIFG).
      merge_block: Consecutive parts that are added up before they meet others, which is where they
        were computed; it changes results as `sub_rounds` does. 0 means 1, and 16 beyond 64 parts.
      clients_per_pack: Clients that train one after the other in one TensorFlow call, at most; as
        `sub_rounds`, it changes results through the order of sums alone. 0 means 16 packs a
        sub-round, or as many as clients; 1 means that clients come one by one, without packs.
    """

    engine: Literal["local", "ray"] = "local"
    cluster: ClusterConfig = dataclasses.field(default_factory=ClusterConfig)
    workers: FromOne = 1
    threads_per_worker: FromZero = 0
    max_concurrent_clients: FromZero = 0
    sub_rounds: FromZero = 0
    merge_block: FromZero = 0
    clients_per_pack: FromZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.sub_rounds == 0 or self.sub_rounds >= self.workers,
            "sub_rounds",
            "must be 0 or >= `execution.workers`",
        )
