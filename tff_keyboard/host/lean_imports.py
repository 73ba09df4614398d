"""TensorFlow and TFF in a task without what no task uses: a third of the time of their import.

- `jax` and `sklearn` are not there while they are imported: `tff.jax`, TensorFlow's converter of
  JAX functions and the logistic regression of `tensorflow_privacy` are left out.
- What `_LATER` names is imported when something first reads it.
- Python looks for no garbage meanwhile.
- AutoGraph rewrites the functions of a `tf.function`, and all that they call, to find Python loops
  over tensors. It looks at those modules alone that have some: the graphs are the same.
"""

import atexit
import contextlib
import gc
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

# What has a Python loop or condition on a tensor, or calls one from its `tf.function`.
LOOPS = (
    "tff_keyboard.packs",
    "tff_keyboard.federated.learning.client_training",
    "tff_keyboard.federated.learning.federated_evaluation",
    "tff_keyboard.training.central.central_training",
    "tff_keyboard.federated.algorithms.fedmed.scored_client_work",
)
PLAIN = (
    "tff_keyboard",
    "tflite_export",
    "tensorflow_federated.python.learning.optimizers",
    "tensorflow_federated.python.learning.templates.apply_optimizer_finalizer",
    "tensorflow_federated.python.learning.tensor_utils",
)
_JAX = "tensorflow_federated.python.core.environments.jax_frontend.jax_computation"
_LATER = (
    "tensorflow_probability",
    "dp_accounting.pld",
    "dp_accounting.pld.pld_privacy_accountant",
    "dp_accounting.pld.privacy_loss_distribution",
    "requests",
    "scipy.optimize",
    "tensorflow.lite.python.schema_py_generated",
)


@contextlib.contextmanager
def lean() -> Iterator[None]:
    """For the import of TensorFlow or TFF."""
    frontend, sklearn = types.ModuleType(_JAX), types.ModuleType("sklearn")
    frontend.jax_computation = sklearn.preprocessing = None  # type: ignore[attr-defined]
    modules: dict[str, Any] = sys.modules
    left_out = {"jax": None, _JAX: frontend, "sklearn": sklearn}
    absent = {name: module for name, module in left_out.items() if name not in modules}
    modules |= absent
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    is_collecting = gc.isenabled()
    gc.disable()  # next to nothing of a million new objects is garbage
    try:
        yield
    finally:
        gc.freeze()  # nor will it be, until TFF's servers end, which need `subprocess` for it
        atexit.register(gc.unfreeze)
        if is_collecting:
            gc.enable()
        sys.meta_path.remove(finder)
        for name in absent:
            del modules[name]


def convert_loops_only() -> None:
    """AutoGraph leaves `PLAIN` alone, but for `LOOPS`; call it after the import of TensorFlow."""
    # TensorFlow has no public way to say it of a module.
    from tensorflow.python.autograph.core import config

    loops = [config.Convert(name) for name in LOOPS]
    plain = [config.DoNotConvert(name) for name in PLAIN]
    config.CONVERSION_RULES = (*loops, *plain, *config.CONVERSION_RULES)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of `_LATER`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _LATER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Makes a module that `loader` executes when somebody reads a name of it."""

    def __init__(self, loader: importlib.abc.Loader):
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Later(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Later(types.ModuleType):
    """Not `importlib.util.LazyLoader`'s: `inspect`, which asks every module for its `__file__`,
    would have that executed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__"):
            raise AttributeError(name)
        loader = vars(self)["__loader__"].loader
        self.__class__ = types.ModuleType  # type: ignore[assignment]
        loader.exec_module(self)
        return getattr(self, name)
