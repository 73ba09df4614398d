"""Freed memory stays with the process, so that every round's messages need no new pages.

A round's model and state go to the workers as messages of megabytes. glibc gives each such buffer
back to the kernel when it is freed and takes new, cleared pages for the next: with a small round
that was more than half of the driver's CPU time (docs/performance.md).
"""

import ctypes

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_FROM_BYTES = 1 << 30  # larger than a round's largest message by far
_KEPT_BYTES = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Buffers below 1 GB come from the heap, and up to 2 GB at its end are kept when freed.

    Says whether the C library has such switches; without, nothing changes but speed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _FROM_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
