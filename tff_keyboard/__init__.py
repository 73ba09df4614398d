"""Federated next-word models for a keyboard.

    import tff_keyboard as tk

    aggregator = tk.aggregators.FedAtt(norm=2)

The public namespaces are `aggregators`, `algorithms`, `data`, `evaluation`, `export`, `metrics`,
`models`, `privacy`, `runtime` and `training`. Their names follow semantic versioning; everything
else may change. The stub of a namespace (`aggregators.pyi`, `data/__init__.pyi`) says where each
name is defined. Editors and type checkers read the stub. `lazy` reads it too and imports a name
when it is first used (PEP 562), so `import tff_keyboard` imports neither TensorFlow nor TFF.
"""

import ast
import functools
import importlib
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__version__ = "0.2.0"

_NAMESPACES = (
    "aggregators",
    "algorithms",
    "data",
    "evaluation",
    "export",
    "metrics",
    "models",
    "privacy",
    "runtime",
    "training",
)
__all__ = ["__version__", *_NAMESPACES]


def _stub(namespace: str) -> pathlib.Path:
    folder = pathlib.Path(__file__).parent
    stub = folder / f"{namespace}.pyi"
    return stub if stub.exists() else folder / namespace / "__init__.pyi"


@functools.cache
def _names(namespace: str) -> Mapping[str, str]:
    """Returns name -> "module.attribute" from the imports of a namespace's stub."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.parse(_stub(namespace).read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def lazy(namespace: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__all__`, `__getattr__` and `__dir__` for a namespace's module."""
    origins = _names(namespace)

    def find(name: str) -> Any:
        module = sys.modules[f"{__name__}.{namespace}"]
        if name not in origins:
            message = f"module {module.__name__!r} has no public name {name!r}"
            raise AttributeError(message, name=name, obj=module)
        origin, _, attribute = origins[name].rpartition(".")
        try:
            value = getattr(importlib.import_module(origin), attribute)
        except ModuleNotFoundError as error:
            message = (
                f"`{module.__name__}.{name}` needs {error.name}, which is not installed here. "
                "Install tff-keyboard with its dependencies."
            )
            raise ModuleNotFoundError(message, name=error.name) from None
        setattr(module, name, value)
        return value

    return sorted(origins), find, lambda: sorted(origins)


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "SURFACE":  # namespace -> name -> "module.attribute"
        return {namespace: _names(namespace) for namespace in _NAMESPACES}
    message = f"module {__name__!r} has no public name {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return list(__all__)
