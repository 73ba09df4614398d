"""Caches of results for typed strings, which can all be emptied together.

People type the same beginnings over and over, so the keyboard remembers what it computed for them.
The keys of these caches are typed text. They are emptied when the user forgets a word, or sends a
message that must not be learned.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_caches: weakref.WeakSet[Any] = weakref.WeakSet()


def typed_cache(function: _Function, *, maxsize: int) -> _Function:
    """Returns a function with a cache of its last `maxsize` results, as `functools.lru_cache`."""
    cached: Any = functools.lru_cache(maxsize=maxsize)(function)
    _caches.add(cached)
    return cached


def forget_typed() -> None:
    """Empties the caches of all keyboards of this process."""
    for cached in list(_caches):
        cached.cache_clear()
