"""Range checks for config fields, with messages a person can act on."""

import math
from collections.abc import Collection


def require(condition: bool, name: str, rule: str, value: object, way_out: str = "") -> None:
    """Raises `ValueError` naming the field, the rule and the value unless `condition` holds.

    >>> require(False, "train.rounds", "must be >= 1", 0, "Set it to 1 or more.")
    Traceback (most recent call last):
    ...
    ValueError: `train.rounds` must be >= 1, got 0. Set it to 1 or more.
    """
    if not condition:
        raise ValueError(f"`{name}` {rule}, got {value!r}.{' ' + way_out if way_out else ''}")


def require_at_least(name: str, value: float, lowest: float) -> None:
    """Raises unless `value` is a finite number >= `lowest`."""
    require(math.isfinite(value), name, "must be finite", value)
    require(value >= lowest, name, f"must be >= {lowest}", value)


def require_positive(name: str, value: float) -> None:
    """Raises unless `value` is a finite number > 0."""
    require(math.isfinite(value), name, "must be finite", value)
    require(value > 0, name, "must be > 0", value)


def require_fraction(name: str, value: float, *, below_one: bool = True) -> None:
    """Raises unless 0 <= value < 1 (or <= 1)."""
    inside = 0 <= value < 1 if below_one else 0 <= value <= 1
    require(inside, name, f"must be in [0, 1{')' if below_one else ']'}", value)


def require_one_of(name: str, value: str, known: Collection[str]) -> None:
    """Raises unless `value` is one of the known names."""
    require(value in known, name, f"must be one of {', '.join(map(repr, known))}", value)
