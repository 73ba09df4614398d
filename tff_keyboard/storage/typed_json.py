"""Converts frozen dataclasses to JSON and back, and checks every type on the way back.

    @dataclasses.dataclass(frozen=True)
    class Part:
        size: int                    # always written
        note: str | None             # always written, if only as null
        hash: str | None = None      # not written if None

Fields are numbers, strings, booleans, other dataclasses, `list[...]`, `tuple[..., ...]`, `dict[str,
...]`, or one of these `| None`.
"""

import dataclasses
import re
import types
import typing
from typing import Any

from tff_keyboard.storage.checks import PLAIN_KINDS, field_hints, is_plain, missing_fields

_HALVES = re.compile("[\ud800-\udfff]")  # unpaired surrogates: valid in JSON, not in UTF-8


def plain(value: Any) -> Any:
    """Converts a dataclass to values for `json.dumps`, with its fields in order.

    A dataclass with a method `as_json` is converted by that method.
    """
    if hasattr(value, "as_json"):
        return value.as_json()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    items = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {
        field.name: plain(item)
        for field, item in items
        if item is not None or field.default is not None
    }


def read(hint: Any, value: Any, name: str) -> Any:
    """Converts parsed JSON back to a value, and checks it.

    Args:
      hint: A dataclass, or the type of a field.
      value: Any result of `json.loads`.
      name: Name of the value in error messages.

    Raises:
      ValueError: If a value has the wrong type. The error names the place and the expected type,
        and does not quote the value. Errors of the dataclasses themselves are passed on.
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
    _require(is_plain(value, hint), name, PLAIN_KINDS[hint])
    _require(hint is not str or not _HALVES.search(value), name, "Unicode")
    _require(not isinstance(value, int) or abs(value) < 2**63, name, "of 64 bits")
    return value


def _read_fields(cls: type, value: Any, name: str) -> Any:
    _require(isinstance(value, dict), name, "an object")
    hints = field_hints(cls)
    if not value.keys() <= hints.keys():
        raise ValueError(f"`{name}` has an unknown key")
    if missing := missing_fields(cls, value):
        raise ValueError(f"`{name}.{missing[0]}` is missing")
    return cls(**{key: read(hints[key], item, f"{name}.{key}") for key, item in value.items()})


def _require(condition: bool, name: str, kind: str) -> None:
    if not condition:
        raise ValueError(f"`{name}` must be {kind}")
