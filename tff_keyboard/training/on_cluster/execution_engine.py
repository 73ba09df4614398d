"""Opens the engine of `[execution]`: threads of this process, or a cluster's nodes."""

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing.local_context import LocalContext
from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.fine_tuning_config import Transfer
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.execution import threading_options
from tff_keyboard.execution.cluster.ray_engine import RayEngine
from tff_keyboard.execution.engine import Engine, LocalEngine
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.training.on_cluster import store_references
from tff_keyboard.training.on_cluster.client_references import Recipe


@contextlib.contextmanager
def opened(config: RunConfig, stores: Sequence[ClientStore | None]) -> Iterator[Engine]:
    """Yields the engine of a run, and makes this process TFF's default context from then on.

    Raises:
      ConfigError: The config cannot run on a cluster.
      ClusterError: The cluster cannot compute this run.
    """
    threading_options.use_one_thread_an_operation()
    here = LocalEngine(config.execution.threads)
    tff.framework.set_default_context(LocalContext(here))
    with contextlib.closing(here):
        if config.execution.engine == "local":
            yield here
            return
        with contextlib.closing(_ray_engine(config, stores)) as nodes:
            yield nodes


def _ray_engine(config: RunConfig, stores: Sequence[ClientStore | None]) -> RayEngine:
    if isinstance(config.fine_tuning.server, Transfer):
        raise ConfigError(
            "`fine_tuning.server.type` = 'transfer' trains one client after the other, so nodes "
            "have nothing to compute. Set `execution.engine` = 'local'."
        )
    files = store_references.files_of(*stores)
    return RayEngine(config.execution.cluster, files, threads=config.execution.threads)


def by_name(config: RunConfig, store: ClientStore, general: ClientStore | None) -> Recipe | None:
    """Returns the names of clients on a cluster; None if their data is used on this machine."""
    if config.execution.engine == "local":
        return None
    return Recipe.of(config, store, general)
