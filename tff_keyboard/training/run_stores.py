"""Opens the client stores and the engine of a run, before anything is built."""

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing.local_context import LocalContext
from tff_keyboard.config import ConfigError, RunConfig
from tff_keyboard.config.sections.averaging_config import NoAverage
from tff_keyboard.config.sections.execution_config import ENGINES
from tff_keyboard.data.sources.messages import POPULATIONS
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.metrics import metric_table
from tff_keyboard.execution import threading_options
from tff_keyboard.execution.engine import Engine, LocalEngine
from tff_keyboard.storage import entry_points
from tff_keyboard.storage.errors import DataError
from tff_keyboard.training.train_run import LAST


def metric_names(config: RunConfig) -> list[str]:
    """Returns the names of a run's validation metrics."""
    users_metrics = [name for name, table in config.evaluation.metrics.items() if table.better]
    names = [*metric_table.FEDERATED_METRICS, *users_metrics]
    if config.fine_tuning.general_store:
        names += [f"{part}/{name}" for part in ("general", "trade_off") for name in names]
    return names


def check_best_metric(config: RunConfig) -> None:
    """Checks that `train.best_metric` is the name of a validation metric.

    With `averaging` the names are metrics of the average; `last/...` are metrics of the last model.

    Raises:
      ConfigError: The name is unknown.
    """
    names = metric_names(config)
    if not isinstance(config.averaging, NoAverage):
        names = [*names, *(f"{LAST}/{name}" for name in names)]
    if config.train.best_metric not in names:
        raise ConfigError(
            f"`train.best_metric` must be one of {', '.join(names)}; "
            f"got {config.train.best_metric!r}."
        )


def open_stores(config: RunConfig) -> tuple[ClientStore, ClientStore | None]:
    """Opens the clients' store and `fine_tuning.general_store` (None without one).

    Raises:
      DataError: A directory is not a store, or the vocabularies differ; or the run is private, and
        clients whom its noise protects are in the general store.
    """
    store = ClientStore(config.data.store)
    if not config.fine_tuning.general_store:
        return store, None
    general = ClientStore(config.fine_tuning.general_store)
    if general.vocabulary != store.vocabulary:
        raise DataError(
            f"`fine_tuning.general_store` = '{general.directory}' has another vocabulary than "
            f"{store.directory}. Prepare both with the same `data.vocabulary_path`."
        )
    if config.aggregation.is_private:
        _check_general_clients(store, general)
    return store, general


def _check_general_clients(store: ClientStore, general: ClientStore) -> None:
    """Checks that the noise of a private run covers every way in which a client's text is used.

    Any number of other clients may rehearse the general messages, and validation on the general
    store may choose the released round. The sensitivity of the sum covers neither.
    """
    clients = set(store.client_ids("train"))
    general_clients = {one for name in POPULATIONS for one in general.client_ids(name)}
    shared = clients & general_clients
    if shared:
        raise DataError(
            f"`fine_tuning.general_store` = '{general.directory}' has {len(shared)} of the "
            f"{len(clients)} train clients of {store.directory}. `aggregation.privacy` protects "
            "these clients only if no other client trains on their text. Prepare the general store "
            "without them, or set `aggregation.privacy.type` = 'none'."
        )


@contextlib.contextmanager
def open_engine(
    config: RunConfig, stores: Sequence[ClientStore | None], *, allow_tff_server: bool = False
) -> Iterator[Engine]:
    """Yields the engine of `[execution]`, and makes this process TFF's default context.

    Computations that cannot run in this process go to TFF's own server if `allow_tff_server`, and
    raise `CannotPackError` otherwise.

    Every engine but "local" is found by its entry point (`execution_config.ENGINES`) and imported
    here: a function of `[execution]` and the stores that returns an `Engine`.

    Raises:
      ClusterError: The cluster cannot compute this run.
    """
    execution = config.execution
    threading_options.use_one_thread_an_operation()
    here = LocalEngine(execution.threads)
    tff.framework.set_default_context(LocalContext(here, allow_tff_server=allow_tff_server))
    with contextlib.closing(here):
        if execution.engine == "local":
            yield here
            return
        open_nodes = entry_points.find(ENGINES)[execution.engine].load()
        with contextlib.closing(open_nodes(execution, stores)) as nodes:
            yield nodes
