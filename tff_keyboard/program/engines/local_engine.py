"""Computes jobs on TFF workers of this machine, a thread for each."""

import dataclasses
import itertools
from collections.abc import Generator, Sequence
from concurrent import futures
from typing import Any

import tensorflow_federated as tff

from tff_keyboard.program.engines.engine import Job


@dataclasses.dataclass(frozen=True)
class LocalPlace:
    """A worker of this machine."""

    context: tff.framework.SyncContext


class LocalEngine:
    """An `engine.Engine`; items are dealt to the workers in turn, results come in order.

    `contexts` are one for each worker; the caller closes the workers.
    """

    def __init__(self, contexts: Sequence[tff.framework.SyncContext]):
        self._places = [LocalPlace(context) for context in contexts]
        self._threads = [
            futures.ThreadPoolExecutor(1, thread_name_prefix="tff-subround") for _ in contexts
        ]

    def run(self, job: Job) -> Generator[tuple[int, Any], None, None]:
        """See `Engine.run`."""
        turns = itertools.cycle(zip(self._threads, self._places, strict=True))
        pending = [
            thread.submit(job.function, place, job.shared, item)
            for item, (thread, place) in zip(job.items, turns, strict=False)
        ]
        try:
            for i, future in enumerate(pending):
                yield i, future.result()
        finally:
            for future in pending:
                future.cancel()

    def place_names(self) -> Sequence[str]:
        """See `Engine.place_names`."""
        return [f"worker {i}" for i in range(len(self._places))]

    def close(self) -> None:
        """See `Engine.close`."""
        for thread in self._threads:
            thread.shutdown(wait=False, cancel_futures=True)
