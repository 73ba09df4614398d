"""Imports TensorFlow and TFF without two unused packages, which saves 2 CPU seconds at the start.

`tff.jax` is for JAX models, and one regression in `tensorflow_privacy` needs scikit-learn. Both
packages are hidden while TFF is imported. Garbage collection is off meanwhile, because almost none
of the million new objects is garbage.
"""

import atexit
import contextlib
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

_JAX = "tensorflow_federated.python.core.environments.jax_frontend.jax_computation"


@contextlib.contextmanager
def lean() -> Iterator[None]:
    """Hides unused packages and stops garbage collection while TensorFlow or TFF is imported."""
    frontend, sklearn = types.ModuleType(_JAX), types.ModuleType("sklearn")
    frontend.jax_computation = sklearn.preprocessing = None  # type: ignore[attr-defined]
    modules: dict[str, Any] = sys.modules
    left_out = {"jax": None, _JAX: frontend, "sklearn": sklearn}
    absent = {name: module for name, module in left_out.items() if name not in modules}
    modules |= absent
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # the imported objects live until exit, where TFF needs `subprocess`
        atexit.register(gc.unfreeze)
        if is_collecting:
            gc.enable()
        for name in absent:
            del modules[name]
