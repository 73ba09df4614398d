"""Checks of plain arguments. A `ValueError` names the argument, the limit and the value."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tff_keyboard.storage import checks

# Group name -> names of variables, or positions such as "0"
LayerGroups: TypeAlias = Mapping[str, Sequence[str]]


def require(name: str, value: float, rule: str, holds: Callable[[float], bool]) -> None:
    """Raises `ValueError` unless `value` is finite and `holds(value)`.

    >>> require("temperature", 0.0, "> 0", lambda x: x > 0)
    Traceback (most recent call last):
    ...
    ValueError: `temperature` must be > 0, got 0.0.
    """
    checks.require(math.isfinite(value) and holds(value), name, f"must be {rule}", value)


def require_positive(name: str, value: float) -> None:
    """Raises `ValueError` unless `value` > 0."""
    require(name, value, "> 0", lambda x: x > 0)


def require_not_negative(name: str, value: float) -> None:
    """Raises `ValueError` unless `value` >= 0."""
    require(name, value, ">= 0", lambda x: x >= 0)
