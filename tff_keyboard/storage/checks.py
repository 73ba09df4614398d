"""Checks of values, with error messages that a user can act on."""

import dataclasses
import functools
import math
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, TypeAlias


def require(condition: bool, name: str, rule: str, value: object, way_out: str = "") -> None:
    """Raises `ValueError` with the field, the rule and the value unless `condition` is true.

    >>> require(False, "train.rounds", "must be >= 1", 0, "Set it to 1 or more.")
    Traceback (most recent call last):
    ...
    ValueError: `train.rounds` must be >= 1, got 0. Set it to 1 or more.
    """
    if not condition:
        raise ValueError(f"`{name}` {rule}, got {value!r}.{' ' + way_out if way_out else ''}")


def require_one_of(name: str, value: object, choices: Collection[object]) -> None:
    """Raises `ValueError` unless `value` is one of the known names."""
    require(value in choices, name, f"must be one of {', '.join(map(repr, choices))}", value)


PLAIN_KINDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
}
"""The types of plain values, and their names in error messages."""


def is_plain(value: object, kind: Any) -> bool:
    """Whether a value of TOML or JSON is of one of `PLAIN_KINDS`.

    An integer is a number, too. A boolean is not a number.

    >>> is_plain(1, float), is_plain(True, int), is_plain(1.0, int)
    (True, False, False)
    """
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


@functools.cache
def field_hints(cls: Any) -> dict[str, Any]:
    """Returns field -> type of a dataclass, in order, without the metadata of `Annotated`."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def missing_fields(cls: Any, names: Collection[str]) -> list[str]:
    """Returns the fields of a dataclass that have no default and are not among `names`."""
    return [
        field.name
        for field in dataclasses.fields(cls)
        if field.default is field.default_factory is dataclasses.MISSING and field.name not in names
    ]


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
