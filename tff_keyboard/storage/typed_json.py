"""Frozen dataclasses as JSON, and back with every kind checked.

    @dataclasses.dataclass(frozen=True)
    class Part:
        size: int                    # always there
        note: str | None             # always there, if only as null
        hash: str | None = None      # left out where it is None

Fields are numbers, strings, booleans, other dataclasses, `list[...]`, `tuple[..., ...]`,
`dict[str, ...]`, or one of these `| None`.
"""

import dataclasses
import functools
import re
import types
import typing
from typing import Any

_HALVES = re.compile("[\ud800-\udfff]")  # of characters: JSON can say them, UTF-8 cannot
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}


def plain(value: Any) -> Any:
    """A dataclass as values that `json.dumps` takes, fields in their order.

    One with a method `as_json` says itself what is written of it.
    """
    if hasattr(value, "as_json"):
        return value.as_json()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    found = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {
        field.name: plain(item)
        for field, item in found
        if item is not None or field.default is not None
    }


def read(hint: Any, value: Any, name: str) -> Any:
    """The inverse, for values that may be anything, by a dataclass or the type of a field.

    Raises `ValueError` if it is of another kind: says where and what should stand there, not what
    does. So does what the dataclasses raise.
    """
    if dataclasses.is_dataclass(hint):
        return _read_fields(typing.cast(type, hint), value, name)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:  # `... | None`
        return None if value is None else read(arguments[0], value, name)
    if origin is dict:
        _require(isinstance(value, dict), name, "an object")
        return {key: read(arguments[1], item, name) for key, item in value.items()}
    if origin is not None:
        count = len(arguments) if origin is tuple else None
        right = isinstance(value, list) and count in (None, len(value))
        _require(right, name, "a list" if count is None else f"a list of {count}")
        return origin(read(arguments[0], item, name) for item in value)
    kinds = (int, float) if hint is float else hint
    right = isinstance(value, kinds) and (hint is bool or not isinstance(value, bool))
    _require(right, name, _KINDS[hint])
    _require(hint is not str or not _HALVES.search(value), name, "Unicode")
    _require(not isinstance(value, int) or abs(value) < 2**63, name, "of 64 bits")
    return value


def _read_fields(cls: type, value: Any, name: str) -> Any:
    _require(isinstance(value, dict), name, "an object")
    hints = _hints(cls)
    if not value.keys() <= hints.keys():
        raise ValueError(f"`{name}` has a key that is not known")
    for field in dataclasses.fields(cls):
        if field.default is dataclasses.MISSING and field.name not in value:
            raise ValueError(f"`{name}.{field.name}` is missing")
    return cls(**{key: read(hints[key], item, f"{name}.{key}") for key, item in value.items()})


@functools.cache
def _hints(cls: type) -> dict[str, object]:
    return typing.get_type_hints(cls)


def _require(condition: bool, name: str, kind: str) -> None:
    if not condition:
        raise ValueError(f"`{name}` must be {kind}")
