"""From `[execution]` to where a run is computed: this machine's workers, or a cluster's nodes."""

from collections.abc import Callable, Sequence

from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.fine_tuning_config import Transfer
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.program.engines import execution
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.on_cluster import store_references
from tff_keyboard.training.on_cluster.client_references import Recipe
from tff_keyboard.training.on_cluster.node_timings import NodeTimings
from tff_keyboard.training.round_lines import RoundLines


def install(
    config: RunConfig, run: RunDirectory, stores: Sequence[ClientStore | None]
) -> execution.InstalledContext:
    """The context of a run, for a `with` statement; a `ConfigError` if no parts can be cut."""
    wanted = config.execution
    engine = build_engine(config, stores) if wanted.engine == "ray" else None
    return execution.install_context(
        wanted.workers if engine is None else 1,
        num_subrounds=wanted.sub_rounds,
        merge_block=wanted.merge_block or 1,
        engine=engine,
        max_concurrent_clients=wanted.max_concurrent_clients or None,
        threads_per_worker=wanted.threads_per_worker or None,
        log_directory=run.logs,
    )


def build_engine(config: RunConfig, stores: Sequence[ClientStore | None]) -> RayEngine:
    """The engine of `execution.engine` = "ray".

    Args and errors are those of `install`.
    """
    if isinstance(config.fine_tuning.server, Transfer):
        raise ConfigError(
            "`fine_tuning.server.name` = 'transfer' trains each client by itself and learns from "
            "all their models in turn: there is nothing to compute elsewhere. Set "
            "`execution.engine` to 'local'."
        )
    wanted = config.execution
    options = NodeOptions(
        workers=wanted.workers,
        max_concurrent_clients=wanted.max_concurrent_clients or None,
        threads_per_worker=wanted.threads_per_worker or 1,
    )
    files = store_references.files_of(*stores)
    return RayEngine(wanted.cluster, options, files)


def by_name(config: RunConfig, store: ClientStore, general: ClientStore | None) -> Recipe | None:
    """How clients are named on a cluster; None on this machine, where their data is handed over."""
    if config.execution.engine == "local":
        return None
    return Recipe.of(config, store, general)


def around_lines(
    run: RunDirectory, context: execution.InstalledContext
) -> Callable[[RoundLines], NodeTimings] | None:
    """What a run on a cluster puts around the lines it shows: see `train_run`."""
    engine = context.engine
    if not isinstance(engine, RayEngine):
        return None
    return lambda lines: NodeTimings(run.node_timings, engine, lines)
