"""Imports TensorFlow and TFF without their start-up messages.

At import TensorFlow 2.14 writes a dozen lines to standard error from C++, before any log level
applies ("Unable to register cuDNN factory", "Could not find TensorRT"). A task calls
`import_tensorflow()` or `import_tensorflow_federated()` before its own heavy imports. Standard
error is captured during the import only. Unknown lines are printed after it, and a failed import
prints all lines. After the import a Python warning is one line, without its source location.
`TFF_KEYBOARD_VERBOSE=1` turns all of this off.
"""

import atexit
import contextlib
import gc
import importlib
import logging
import os
import pathlib
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from typing import Any

from tff_keyboard.host import output, progress

_NAMES = {"tensorflow": "TensorFlow", "tensorflow_federated": "TensorFlow Federated"}
VERBOSE_VARIABLE = "TFF_KEYBOARD_VERBOSE"

_CHATTER = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] "  # TensorFlow's C++ log
    r"|^To enable the following instructions: "
    r"|^WARNING: All log messages before absl::InitializeLog"
)
_STANDARD_ERROR = 2
_TFF_JAX = "tensorflow_federated.python.core.environments.jax"  # `tff.jax`
_JAX = "tensorflow_federated.python.core.environments.jax_frontend.jax_computation"


def import_tensorflow() -> types.ModuleType:
    """Returns the module `tensorflow`."""
    return _import("tensorflow")


def import_tensorflow_federated() -> types.ModuleType:
    """Returns the module `tensorflow_federated`. Imports TensorFlow too.

    `tff.jax` is imported at its first use.
    """
    _import("tensorflow")
    is_first = "tensorflow_federated" not in sys.modules
    tff = _import("tensorflow_federated")
    if is_first and not is_verbose():
        # The import has left out JAX, so `tff.jax` has no content yet.
        sys.modules.pop(_TFF_JAX, None)
        vars(tff).pop("jax", None)
        tff.__getattr__ = _import_jax  # type: ignore[method-assign]
    return tff


def import_packages_of(path: pathlib.Path) -> None:
    """Imports TensorFlow or TFF if a source file mentions it, before the file imports it."""
    source = path.read_bytes()
    if b"tensorflow_federated" in source:
        import_tensorflow_federated()
    elif b"tensorflow" in source or b"tff_keyboard" in source:
        import_tensorflow()


def _import_jax(name: str) -> types.ModuleType:
    """Returns `tff.jax`; the `__getattr__` of TFF's module (PEP 562)."""
    if name != "jax":
        raise AttributeError(f"module 'tensorflow_federated' has no attribute {name!r}")
    return importlib.import_module(_TFF_JAX)


def is_verbose() -> bool:
    """Checks if the environment asks for TensorFlow's start-up messages."""
    return os.environ.get(VERBOSE_VARIABLE, "") not in ("", "0")


@contextlib.contextmanager
def standard_error_dropped() -> Iterator[None]:
    """Discards everything that the block writes to standard error, C++ included."""
    if is_verbose():
        yield
        return
    with _caught_standard_error():
        yield


def _import(name: str) -> types.ModuleType:
    """Imports a module without its start-up messages, unless the program is verbose."""
    if name in sys.modules:
        return sys.modules[name]
    if is_verbose():
        return importlib.import_module(name)
    progress.step(f"importing {_NAMES.get(name, name)}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors, also after the import
    _filter_warnings()
    with _chatter_dropped(), without_unused_packages():
        module = importlib.import_module(name)
    _filter_warnings()  # imports reset some filters
    warnings.formatwarning = output.warning_line
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    absl_logging = importlib.import_module("absl.logging")  # TFF logs through it
    absl_logging.set_verbosity(absl_logging.WARNING)
    return module


def _filter_warnings() -> None:
    """Hides warnings of packages about their own dependencies, which a user cannot change."""
    warnings.filterwarnings("ignore", message="pkg_resources is deprecated")
    warnings.filterwarnings("ignore", category=DeprecationWarning)


@contextlib.contextmanager
def without_unused_packages() -> Iterator[None]:
    """Hides two unused packages while TensorFlow or TFF is imported. Saves 2 CPU seconds.

    `tff.jax` is for JAX models, and one regression in `tensorflow_privacy` needs scikit-learn.
    Garbage collection is off meanwhile, because almost none of the million new objects is garbage.
    """
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


@contextlib.contextmanager
def _chatter_dropped() -> Iterator[None]:
    """Prints the block's standard error after it, without known chatter, or in full if it fails."""
    failed = False
    caught: list[str] = []
    try:
        with _caught_standard_error() as caught:
            yield
    except Exception:  # but not on Ctrl-C
        failed = True
        raise
    finally:
        for line in caught:
            if failed or not _CHATTER.match(line):
                print(line, file=sys.stderr)


@contextlib.contextmanager
def _caught_standard_error() -> Iterator[list[str]]:
    """Yields a list that contains, after the block, the lines that the block wrote."""
    lines: list[str] = []
    sys.stderr.flush()
    saved = os.dup(_STANDARD_ERROR)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), _STANDARD_ERROR)
        try:
            yield lines
        finally:
            sys.stderr.flush()
            os.dup2(saved, _STANDARD_ERROR)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()
