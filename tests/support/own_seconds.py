"""CPU seconds of a piece of work alone, whatever else the test process has done or does.

Not counted are its other threads (TensorFlow's wait busily) and collections of garbage, which walk
over all that hundreds of tests have left. What coverage adds is counted.
"""

import contextlib
import gc
import time


@contextlib.contextmanager
def own_seconds():
    """Yields a function: CPU seconds of this thread since the block began."""
    collecting = gc.isenabled()
    gc.disable()
    begin = time.thread_time()
    try:
        yield lambda: time.thread_time() - begin
    finally:
        if collecting:
            gc.enable()
