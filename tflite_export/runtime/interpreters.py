"""Opens a `.tflite` file with an installed runtime: LiteRT, else TensorFlow."""

import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import ExportError
from tflite_export.format import operators

RUNTIMES = ("litert", "tensorflow")
_PACKAGES = {"litert": "ai_edge_litert", "tensorflow": "tensorflow"}


def open_interpreter(
    path: pathlib.Path, *, xnnpack: bool = False, runtime: str | None = None
) -> Any:
    """Opens an interpreter on a file, which is mapped, not read.

    A file with operators that are not TFLite's own is refused, because they could run any code.
    Call `manifest.load_checked` first: the interpreters do not verify a file, and a hostile file
    can crash them (`model_trial`).

    Args:
      path: The `.tflite` file.
      xnnpack: Whether to use XNNPACK. In LiteRT a step becomes a third faster and memory grows by 5
        MB, because weights are packed again for each signature. XNNPACK of TF 2.14 does not use
        int8 weights with float activations.
      runtime: "litert" (package ai-edge-litert) or "tensorflow"; None takes the first installed.

    Raises:
      ExportError: If no runtime is installed, or it rejects the file, or as `operators.check_own`.
    """
    operators.check_own(path)
    interpreter_class, resolver = _interpreter_class(runtime)
    kernels = resolver.AUTO if xnnpack else resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        return interpreter_class(
            model_path=str(path), num_threads=1, experimental_op_resolver_type=kernels
        )
    except (ValueError, RuntimeError) as error:
        raise ExportError(
            f"{path}: not a model the TFLite interpreter can open "
            f"({first_line(error)}). Export it again."
        ) from None


def installed_runtimes() -> tuple[str, ...]:
    """Returns the installed runtimes, the preferred one first. Imports none of them.

    >>> set(installed_runtimes()) <= {"litert", "tensorflow"}
    True
    """
    return tuple(name for name in RUNTIMES if importlib.util.find_spec(_PACKAGES[name]))


def import_quietly(runtime: str | None = None) -> None:
    """Imports the runtime.

    Raises:
      ExportError: If it is not installed.
    """
    _interpreter_class(runtime)


def _interpreter_class(runtime: str | None) -> tuple[Any, Any]:
    """Returns the class `Interpreter` of a runtime, and its `OpResolverType`."""
    names = (runtime,) if runtime else RUNTIMES
    for name in names:
        if name not in _LOADERS:
            raise ExportError(f"`runtime` must be one of {RUNTIMES}, got {name!r}.")
        try:
            return _LOADERS[name]()
        except ImportError:
            continue
    raise ExportError(
        f"No TFLite runtime for {' or '.join(names)} is installed. Run: pip install ai-edge-litert"
    )


def _litert() -> tuple[Any, Any]:
    from ai_edge_litert import interpreter

    return interpreter.Interpreter, interpreter.OpResolverType


def _tensorflow() -> tuple[Any, Any]:
    tf = quiet.import_tensorflow()
    return tf.lite.Interpreter, tf.lite.experimental.OpResolverType


_LOADERS: dict[str, Callable[[], tuple[Any, Any]]] = {"litert": _litert, "tensorflow": _tensorflow}


def first_line(error: Exception) -> str:
    """Returns the first line of an interpreter's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
