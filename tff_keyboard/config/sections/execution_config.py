"""`[execution]`: the machines that compute a run, and how its clients are packed."""

import dataclasses
from typing import Final, Literal

from tff_keyboard.parts.tables import Table
from tff_keyboard.storage import entry_points
from tff_keyboard.storage.checks import FromOne, FromZero, require_one_of

LOCAL = "local"
AUTO: Final = "auto"
ENGINES = "tff_keyboard.engines"  # entry points, each named after a value of `execution.engine`


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterConfig(Table, path="execution.cluster"):
    """The Ray cluster for `execution.engine` = "ray"; see docs/cluster.md.

    It does not change results, unless `allow_nondeterminism` is true.

    Attributes:
      address: HOST:PORT of the head node. "" uses the environment variable RAY_ADDRESS. "local"
        starts a cluster with one node on this machine.
      min_nodes: Number of nodes that must be ready before the first round starts.
      max_nodes: Maximum number of nodes to use, so that several trainings can share a cluster; 0
        uses all nodes.
      wait_seconds: Maximum time in seconds to wait for `min_nodes` nodes at the start, and for a
        new node if all nodes are lost.
      max_losses: Maximum number of node losses in the whole training. With more losses, the
        training stops. A node that is lost, returns and is lost again counts twice.
      allow_nondeterminism: Whether nodes may have a different processor or different code than this
        machine. If true, the last bits of the results depend on the nodes that computed them.
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
      engine: Where a run is computed: "local" on this machine, "ray" on the nodes of a cluster.
        Both give identical results. A package can register another engine.
      cluster: The cluster to compute on.
      threads: Number of packs (groups of clients) that are computed at the same time, on this
        machine or on each node. 0 uses the number of available processors. More threads need more
        memory and do not change results.
      clients_per_pack: Maximum number of clients in a pack, which one TensorFlow call trains one
        after the other. Results change only in the last bits, through the order of floating-point
        sums. 0 makes 16 packs per round, or one pack per client if the round has fewer than 16
        clients; with little text and a shared first step there are 4 to 16 packs.
      first_step: How the first training step of each client is computed. "shared" makes one forward
        and one backward pass for the first batches of many clients of a pack, which start from the
        same weights. It is faster if clients have few batches. Models with dropout, and other
        models than the CIFG, do not use it. "separate" makes them for each client, as versions
        before 0.3. Results differ in the last bits. "auto" is "shared" in a new run; a resumed run
        keeps its own way.
    """

    engine: str = LOCAL
    cluster: ClusterConfig = dataclasses.field(default_factory=ClusterConfig)
    threads: FromZero = 0
    clients_per_pack: FromZero = 0
    first_step: Literal["auto", "shared", "separate"] = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine != LOCAL:  # else no metadata of packages is read
            require_one_of("execution.engine", self.engine, (LOCAL, *entry_points.find(ENGINES)))
