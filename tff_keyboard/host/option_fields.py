"""What the annotation of a field says about an option; `tasks/options.py` shows the use."""

import dataclasses
import math
import pathlib
import types
import typing
from typing import Any, Literal

from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Range:
    """Least and greatest value of a number, both allowed."""

    low: float = -math.inf
    high: float = math.inf


@dataclasses.dataclass(frozen=True)
class Words:
    """Marks the field of the words that are not flags, and says what they are."""

    help: str  # what they are, to be read after "Give "
    # how many there may be; for a field that is no tuple it is always one
    least: int = 0
    most: float = math.inf


@dataclasses.dataclass(frozen=True)
class Option:
    """One field of a `TaskOptions`, as its annotation describes it."""

    name: str
    kind: type
    help: str
    choices: tuple[str, ...] | None
    is_tuple: bool
    words: Words | None
    range: Range
    default: Any

    @property
    def flag(self) -> str:
        """The flag as it is typed: `--parity-words`."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_required(self) -> bool:
        """Whether it has no default; a tuple's is the empty one."""
        return self.default is dataclasses.MISSING and not self.is_tuple

    @property
    def is_list(self) -> bool:
        """Whether values are separated by commas, which no value of this type can hold."""
        return self.is_tuple and (self.kind not in (str, pathlib.Path) or self.choices is not None)

    def check(self, value: Any) -> None:
        """Raises `UsageError` unless `value` is in the range and one of the choices."""
        if self.words and self.is_tuple:
            if not self.words.least <= len(value) <= self.words.most:
                raise UsageError(f"Give {self.help}; got {len(value)} arguments. See --help.")
            return
        for item in value if self.is_tuple else () if value is None else (value,):
            if self.choices and item not in self.choices:
                raise UsageError(f"{self.flag} must be of {', '.join(self.choices)}; got {item!r}.")
            low, high = self.range.low, self.range.high
            if self.range != Range() and not (low <= item <= high and math.isfinite(item)):
                rule = f">= {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
                raise UsageError(f"{self.flag} must be {rule}, got {item!r}.")


def options_of(cls: type) -> tuple[Option, ...]:
    """What the annotations of `cls` describe, in order."""
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
    limits = next((extra for extra in extras if isinstance(extra, Range)), Range())
    kind = str if choices else described
    return Option(name, kind, help_line, choices, is_tuple, words, limits, default)
