"""Opens a `.tflite` file in whichever runtime is installed: LiteRT, else TensorFlow."""

import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import ExportError

RUNTIMES = ("litert", "tensorflow")
_PACKAGES = {"litert": "ai_edge_litert", "tensorflow": "tensorflow"}


def open_interpreter(
    path: pathlib.Path, *, num_threads: int = 1, xnnpack: bool = False, runtime: str | None = None
) -> Any:
    """An interpreter over a file, which stays mapped, not read.

    `manifest.load_checked` has found nothing wrong in it: the interpreters do not verify a file,
    and may crash on one that was made to (`model_trial`). Threads are those inside one operator.
    With XNNPACK, in LiteRT a step is a third faster, and memory grows by 5 MB, as it packs weights
    anew for each signature; TF 2.14's leaves int8 weights with float activations alone. A runtime
    is "litert" (package ai-edge-litert) or "tensorflow"; None takes the first installed. Raises
    `ExportError` if none is installed, or it refuses the file.
    """
    interpreter_class, resolver = _interpreter_class(runtime)
    kernels = resolver.AUTO if xnnpack else resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        return interpreter_class(
            model_path=str(path), num_threads=num_threads, experimental_op_resolver_type=kernels
        )
    except (ValueError, RuntimeError) as error:
        raise ExportError(
            f"{path}: not a model the TFLite interpreter can open "
            f"({first_line(error)}). Export it again."
        ) from None


def installed_runtimes() -> tuple[str, ...]:
    """The runtimes whose packages are there, the preferred one first; imports none."""
    return tuple(name for name in RUNTIMES if importlib.util.find_spec(_PACKAGES[name]))


def import_quietly(runtime: str | None = None) -> None:
    """Imports the runtime now. Raises `ExportError` if it is not installed."""
    _interpreter_class(runtime)


def _interpreter_class(runtime: str | None) -> tuple[Any, Any]:
    """The class `Interpreter` of a runtime, and its `OpResolverType`."""
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
    """What an interpreter says, as a part of one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
