"""Calls the code of a part, which is named as "module:attribute".

The name is text where a light module describes a part whose code imports TensorFlow.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any


def load(name: str) -> Callable[..., Any]:
    """Imports a function or class of this project.

    >>> load("math:sqrt")(4.0)
    2.0
    """
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def call(name: str, options: Mapping[str, Any], run: Mapping[str, Any]) -> Any:
    """Calls `name` with its options, and with the values of the run that it has parameters for."""
    function = load(name)
    parameters = inspect.signature(function).parameters
    passed = {key: value for key, value in run.items() if key in parameters and key not in options}
    return function(**options, **passed)
