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
import importlib.util
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


def _stub(module: str) -> pathlib.Path:
    """Returns the stub beside the file of a module, without importing the module."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return pathlib.Path(spec.origin).with_suffix(".pyi")


@functools.cache
def public_names(module: str) -> Mapping[str, str]:
    """Returns name -> "module.attribute" from the imports of the stub of a module."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.parse(_stub(module).read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def lazy(module_name: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__all__`, `__getattr__` and `__dir__` for a module whose names its stub lists.

    Args:
      module_name: The module: "tff_keyboard.NAMESPACE", or a package beside `tff_keyboard`.
    """
    origins = public_names(module_name)

    def find(name: str) -> Any:
        module = sys.modules[module_name]
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
        return {namespace: public_names(f"{__name__}.{namespace}") for namespace in _NAMESPACES}
    message = f"module {__name__!r} has no public name {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return list(__all__)
