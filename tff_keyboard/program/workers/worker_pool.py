"""Several TFF workers, each started again when it dies, a bounded number of times."""

import os
import pathlib
import threading
from collections.abc import Sequence
from typing import Any

from tff_keyboard.program import errors
from tff_keyboard.program.workers import workers


class WorkerPool:
    """`num_workers` workers, restarted when they die, at most `max_restarts` times in all."""

    def __init__(
        self,
        num_workers: int,
        *,
        log_directory: str | os.PathLike[str] | None = None,
        max_restarts: int = 3,
        **options: Any,
    ):
        if max_restarts < 0:
            raise ValueError(f"`max_restarts` must be >= 0, got {max_restarts}.")
        self._lock = threading.Lock()
        self._restarts_left = max_restarts
        self._closed = False
        self._workers: list[workers.Worker] = []
        try:
            for i in range(num_workers):
                log_path = log_directory and pathlib.Path(log_directory) / f"worker_{i}.log"
                self._workers.append(workers.Worker(log_path, **options))
        except BaseException:
            self.close()
            raise

    @property
    def members(self) -> Sequence[workers.Worker]:
        return tuple(self._workers)

    def live_address(self, preferred: int) -> str:
        """Address of worker `preferred`, or of the next that lives.

        A dead one is started again while restarts are left. A `WorkerError` if no worker is left,
        or the pool was closed.
        """
        with self._lock:
            if self._closed:
                raise errors.WorkerError("The TFF workers were stopped.")
            for worker in [*self._workers[preferred:], *self._workers[:preferred]]:
                if worker.is_alive() or self._restart(worker):
                    return worker.address
        raise errors.WorkerError(
            f"All {len(self._workers)} TFF workers died, no restart is left; their logs say why. "
            "If the machine ran out of memory, lower `max_concurrent_clients` or the clients per "
            "round."
        )

    def give_up_on(self, address: str) -> None:
        """Ends the worker at `address`: it lives, but does not answer."""
        with self._lock:
            for worker in self._workers:
                if worker.address == address:
                    worker.stop()

    def close(self) -> None:
        """Stops all workers. What still runs on them fails at once."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                worker.stop()

    def _restart(self, worker: workers.Worker) -> bool:
        if self._restarts_left == 0:
            return False
        self._restarts_left -= 1
        try:
            worker.start()
        except errors.WorkerError:
            return False
        return True
