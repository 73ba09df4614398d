"""Runs TFF computations on workers of our own: one, or several with the same result to the bit.

With one worker and one sub-round this is TFF's plain synchronous context. With more, a round is
computed in parts by an engine (`engine.py`) and merged in a fixed order (`merge_context.py`): the
workers of this machine, or the nodes of a cluster.
"""

import contextlib
import os

import tensorflow_federated as tff

from tff_keyboard.program.engines.engine import Engine
from tff_keyboard.program.engines.local_engine import LocalEngine
from tff_keyboard.program.engines.merge_context import MergeContext
from tff_keyboard.program.workers.worker_context import start_workers
from tff_keyboard.program.workers.worker_pool import WorkerPool
from tff_keyboard.program.workers.workers import START_TIMEOUT_SECONDS


class InstalledContext:
    """What `install_context` gives: a context manager that stops the workers at its end.

    The context stays TFF's default after it, and computations then raise `WorkerError`: TFF's own
    default would start a server of its own.
    """

    def __init__(
        self, pool: WorkerPool, context: tff.framework.SyncContext, engine: Engine | None = None
    ):
        self.pool = pool
        self.context = context
        self.engine = engine

    def pop_aggregation_seconds(self) -> float | None:
        """Seconds of aggregation since the last call; None where it cannot be told apart."""
        if isinstance(self.context, MergeContext):
            return self.context.pop_aggregation_seconds()
        return None

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
        self.pool.close()

    def __enter__(self) -> "InstalledContext":
        return self

    def __exit__(self, *unused_exception: object) -> None:
        self.close()


def install_context(
    num_workers: int = 1,
    *,
    num_subrounds: int | None = None,
    merge_block: int = 1,
    engine: Engine | None = None,
    max_concurrent_clients: int | None = None,
    threads_per_worker: int | None = None,
    max_restarts: int = 3,
    max_attempts: int = 5,
    start_timeout_seconds: float = START_TIMEOUT_SECONDS,
    log_directory: str | os.PathLike[str] | None = None,
) -> InstalledContext:
    """Starts workers and makes them TFF's default context of this thread.

    Args:
      num_workers: Worker processes, >= 1.
      num_subrounds: Parts of a round, >= 1; results depend on it to the last bit (a sum is grouped
        differently), so fix it when runs on different machines are compared. None: `num_workers`.
      merge_block: Parts that are folded before they meet others, >= 1; results depend on it, too.
      engine: Computes the parts; this owns it from here on. None: the workers of this machine do.
      max_concurrent_clients: Clients at a time in each worker, >= 1; None: its share of the cores.
      threads_per_worker: TensorFlow threads of one operation, >= 1; None: 1. Clients side by side
        with single-threaded kernels beat threads inside a client's thin matrix products, and a
        result that depends on no number of cores can be computed again anywhere.
      max_restarts: Times a dead worker is started again, over the whole training.
      max_attempts: Times one computation is tried before the training ends with an error, >= 1.
      start_timeout_seconds: Deadline for a worker to listen.
      log_directory: Gets `worker_0.log`, ...; None: no logs.

    Raises `ValueError` if an argument is out of range, `WorkerError` if a worker does not start.
    """
    num_subrounds = num_workers if num_subrounds is None else num_subrounds
    for name, value in [
        ("num_workers", num_workers),
        ("num_subrounds", num_subrounds),
        ("merge_block", merge_block),
        ("max_attempts", max_attempts),
    ]:
        if value < 1:
            raise ValueError(f"`{name}` must be >= 1, got {value}.")
    with contextlib.ExitStack() as at_failure:
        if engine is not None:
            at_failure.callback(engine.close)
        pool, contexts = start_workers(
            num_workers,
            max_concurrent_clients=max_concurrent_clients,
            threads_per_worker=threads_per_worker,
            max_attempts=max_attempts,
            log_directory=log_directory,
            max_restarts=max_restarts,
            start_timeout_seconds=start_timeout_seconds,
        )
        at_failure.pop_all()
    context: tff.framework.SyncContext = contexts[0]
    if engine is not None or num_subrounds > 1:
        engine = engine or LocalEngine(contexts)
        context = MergeContext(context, engine, num_subrounds, merge_block)
    tff.framework.set_default_context(context)
    return InstalledContext(pool, context, engine)
