"""Opens the engine for `execution.engine` = "ray".

Registered as the entry point "ray" of `tff_keyboard.engines`, so the code for Ray is imported only
by a run whose config asks for it.
"""

from collections.abc import Sequence

from tff_keyboard.config.sections.execution_config import ExecutionConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.execution.cluster.ray_engine import RayEngine
from tff_keyboard.training.on_cluster.store_references import files_of


def open_cluster(execution: ExecutionConfig, stores: Sequence[ClientStore | None]) -> RayEngine:
    """Joins the cluster of `[execution.cluster]`.

    Args:
      execution: The table `[execution]`.
      stores: The client stores of the run. Every node must have copies of them.

    Raises:
      ClusterError: The cluster cannot compute this run.
    """
    return RayEngine(execution.cluster, files_of(*stores), threads=execution.threads)
