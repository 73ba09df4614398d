"""Command-line options from annotated dataclass fields; see `tasks/options.py` for the use."""

import dataclasses
import math
import pathlib
import types
import typing
from typing import Any, Literal

from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The smallest and the largest allowed value of a number."""

    low: float = -math.inf
    high: float = math.inf


@dataclasses.dataclass(frozen=True)
class Words:
    """Marks the field of the positional arguments, and describes them."""

    help: str  # a noun phrase, to be read after "Give "
    # allowed number of arguments; a field that is not a tuple always takes one
    least: int = 0
    most: float = math.inf


@dataclasses.dataclass(frozen=True)
class Option:
    """One field of a `TaskOptions`, as described by its annotation."""

    name: str
    kind: type
    help: str
    choices: tuple[str, ...] | None
    is_tuple: bool
    words: Words | None
    range: Bounds
    default: Any

    @property
    def flag(self) -> str:
        """The flag as the user types it: `--parity-words`."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_required(self) -> bool:
        """Whether the option has no default. The default of a tuple is the empty tuple."""
        return self.default is dataclasses.MISSING and not self.is_tuple

    @property
    def is_list(self) -> bool:
        """Whether values are separated by commas. Values of such a type cannot contain a comma."""
        return self.is_tuple and (self.kind not in (str, pathlib.Path) or self.choices is not None)

    def check(self, value: Any) -> None:
        """Raises `UsageError` if `value` is out of range or not one of the choices."""
        if self.words and self.is_tuple:
            if not self.words.least <= len(value) <= self.words.most:
                raise UsageError(f"Pass {self.help}; got {len(value)} arguments. See --help.")
            return
        for item in value if self.is_tuple else () if value is None else (value,):
            if self.choices and item not in self.choices:
                raise UsageError(
                    f"{self.flag} must be one of {', '.join(self.choices)}; got {item!r}."
                )
            low, high = self.range.low, self.range.high
            if self.range != Bounds() and not (low <= item <= high and math.isfinite(item)):
                rule = f">= {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
                raise UsageError(f"{self.flag} must be {rule}, got {item!r}.")


def options_of(cls: type) -> tuple[Option, ...]:
    """Returns the options that the fields of `cls` describe, in order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)
    return tuple(_option(field.name, hints[field.name], field.default) for field in fields)


def _option(name: str, hint: Any, default: Any) -> Option:
    described, *extras = typing.get_args(hint)
    words = next((extra for extra in extras if isinstance(extra, Words)), None)
    help_line = words.help if words else next(extra for extra in extras if isinstance(extra, str))
    if typing.get_origin(described) in (typing.Union, types.UnionType):
        described = next(t for t in typing.get_args(described) if t is not types.NoneType)
    is_tuple = typing.get_origin(described) is tuple
    if is_tuple:
        described = typing.get_args(described)[0]
    choices = typing.get_args(described) if typing.get_origin(described) is Literal else None
    limits = next((extra for extra in extras if isinstance(extra, Bounds)), Bounds())
    kind = str if choices else described
    return Option(name, kind, help_line, choices, is_tuple, words, limits, default)
