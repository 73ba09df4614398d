"""Makes the methods of an object safe to call from several threads.

class Counter:
def __init__(self):
self.lock = Lock()

@locked
def count(self) -> int: ...
"""

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Lock:
    """A lock that the thread which holds it may take again, for a `with` block.

    A pickle or a deep copy of it is another lock, which is free.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *unused_exception: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Lock"], tuple[()]]:
        return Lock, ()


class _HasLock(Protocol):
    """An object with the lock that its methods hold while they run."""

    @property
    def lock(self) -> Lock: ...


_Object = TypeVar("_Object", bound=_HasLock)


def locked(
    method: Callable[Concatenate[_Object, _Arguments], _Result],
) -> Callable[Concatenate[_Object, _Arguments], _Result]:
    """Returns a method that holds the attribute `lock` of its object while it runs."""

    @functools.wraps(method)
    def run(
        self: _Object, /, *arguments: _Arguments.args, **keywords: _Arguments.kwargs
    ) -> _Result:
        with self.lock:
            return method(self, *arguments, **keywords)

    return run
