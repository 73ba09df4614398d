"""Applies one function to many items: the interface, and its implementation on this machine.

A result depends only on the item and on the data that all items share. An item may therefore be
computed anywhere, twice at once, or again after a loss. `execution.cluster` computes items on the
nodes of a Ray cluster.
"""

import dataclasses
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent import futures
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Function(Protocol):
    """The function of a job. It can be pickled if the engine has several nodes.

    Attributes:
      key: Identifies the function. Functions with the same key are the same and are sent once.
    """

    @property
    def key(self) -> str: ...

    def __call__(self, shared: Any, item: Any, /) -> Any: ...

    def close(self) -> None:
        """Aborts the running calls, which then raise an error."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A function and the items to apply it to: `function(shared, item)` for each item.

    Attributes:
      function: The function.
      shared: The input that all items have in common. It is sent to a node once per job.
      items: The inputs that differ, such as packs of clients.
    """

    function: Function
    shared: Any  # input of every item; sent to a node once per job
    items: Sequence[Any]


class Engine(Protocol):
    """Computes jobs: in threads of this process (`LocalEngine`), or on the nodes of a cluster."""

    def run(self, job: Job) -> Generator[tuple[int, Any], None, None]:
        """Yields the position and the result of each item, each once, in any order.

        Closing the iterator drops the remaining items. The iterator raises the errors of the items.
        """

    def close(self) -> None:
        """Ends everything that the engine started. Running items fail."""


class LocalEngine:
    """An `Engine` that computes on threads of this process and returns results in order.

    Args:
      threads: Items at a time, >= 0; 0 means the number of processors that this process may use.
        Results do not depend on it.
    """

    def __init__(self, threads: int = 0):
        if threads < 0:
            raise ValueError(f"`threads` must be >= 0, got {threads}.")
        self.threads = threads or len(os.sched_getaffinity(0))
        self._pool = futures.ThreadPoolExecutor(self.threads, thread_name_prefix="engine")

    def run(self, job: Job) -> Generator[tuple[int, Any], None, None]:
        """See `Engine.run`."""
        pending = [self._pool.submit(job.function, job.shared, item) for item in job.items]
        try:
            for position, future in enumerate(pending):
                yield position, future.result()
        finally:
            if not all([future.cancel() or future.done() for future in pending]):
                job.function.close()  # after an error or a signal the other results are not needed
                futures.wait(pending)

    def close(self) -> None:
        """See `Engine.close`."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *unused_exception: object) -> None:
        self.close()


def fold_in_order(results: Iterator[tuple[int, T]], merge: Callable[[T, T], T]) -> T | None:
    """Returns `merge(merge(result 0, result 1), result 2)...`, or None if there are no results.

    Merges each result as soon as all earlier ones are merged.

    >>> fold_in_order(iter([(2, "c"), (0, "a"), (1, "b")]), lambda x, y: f"({x}{y})")
    '((ab)c)'

    Args:
      results: Position and result; each position from 0 on once, in any order.
      merge: Combines two results.
    """
    waiting: dict[int, T] = {}
    merged: T | None = None
    following = 0
    for position, result in results:
        waiting[position] = result
        while following in waiting:
            following_result = waiting.pop(following)
            merged = following_result if merged is None else merge(merged, following_result)
            following += 1
    return merged
