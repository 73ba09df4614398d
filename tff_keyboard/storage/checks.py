"""Checks of values, with error messages that a user can act on."""

import dataclasses
import math
from collections.abc import Callable, Collection
from typing import Annotated, TypeAlias


def require(condition: bool, name: str, rule: str, value: object, way_out: str = "") -> None:
    """Raises `ValueError` with the field, the rule and the value unless `condition` is true.

    >>> require(False, "train.rounds", "must be >= 1", 0, "Set it to 1 or more.")
    Traceback (most recent call last):
    ...
    ValueError: `train.rounds` must be >= 1, got 0. Set it to 1 or more.
    """
    if not condition:
        raise ValueError(f"`{name}` {rule}, got {value!r}.{' ' + way_out if way_out else ''}")


def require_one_of(name: str, value: object, known: Collection[object]) -> None:
    """Raises `ValueError` unless `value` is one of the known names."""
    require(value in known, name, f"must be one of {', '.join(map(repr, known))}", value)


@dataclasses.dataclass(frozen=True)
class Range:
    """The allowed values of a numeric field. `Table` reads it from the field's annotation."""

    rule: str  # the range in words, to be read after "must be"
    holds: Callable[[float], bool]  # whether a number is in the range

    def check(self, name: str, value: float) -> None:
        """Raises `ValueError` unless `value` is finite and in the range."""
        require(math.isfinite(value), name, "must be finite", value)
        require(self.holds(value), name, f"must be {self.rule}", value)


def at_least(lowest: float) -> Range:
    """Returns the range of numbers >= `lowest`."""
    return Range(f">= {lowest}", lambda value: value >= lowest)


def between(lowest: int, highest: int) -> Range:
    """Returns the range of whole numbers from `lowest` to `highest`, both included."""
    return Range(f"in {lowest}..{highest}", lambda value: lowest <= value <= highest)


NOT_NEGATIVE = at_least(0)
POSITIVE = Range("> 0", lambda value: value > 0)

FromZero: TypeAlias = Annotated[int, at_least(0)]
FromOne: TypeAlias = Annotated[int, at_least(1)]
NotNegative: TypeAlias = Annotated[float, NOT_NEGATIVE]
Positive: TypeAlias = Annotated[float, POSITIVE]
Fraction: TypeAlias = Annotated[float, Range("in [0, 1)", lambda value: 0 <= value < 1)]
Share: TypeAlias = Annotated[float, Range("in [0, 1]", lambda value: 0 <= value <= 1)]
OpenShare: TypeAlias = Annotated[float, Range("in (0, 1)", lambda value: 0 < value < 1)]
