"""Converts TOML tables to frozen dataclasses: types, unknown keys, variants chosen by a tag.

A field whose type is a union of dataclasses is a tagged table. The tag of each variant is its first
field that is a `Literal` of one value:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class TrimmedMean(Table):
        type: Literal["trimmed_mean"] = "trimmed_mean"
        trim_fraction: float = 0.1

    rule: Mean | TrimmedMean        # [aggregation.rule] type = "trimmed_mean"

The error for a key of another variant names the variant that it belongs to. To add a variant,
define a class and add its name to the union. A table without a tag is of the same variant as the
field's default. A field whose type is a class with a `REGISTRY` is a tagged table, too: its
variants are the classes of the registry (`registry.py`).
"""

import dataclasses
import difflib
import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from typing_extensions import Self

from tff_keyboard.parts.renamed_keys import RENAMED_KEYS
from tff_keyboard.storage.checks import (
    PLAIN_KINDS,
    Range,
    field_hints,
    is_plain,
    missing_fields,
    require,
    require_one_of,
)
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.storage.part_reference import is_reference

_Class = TypeVar("_Class")
_ENTRY = re.compile(r"(\w+): (.*)")

Toml: TypeAlias = dict[str, Any]  # a parsed TOML table, not yet checked


class Table:
    """Base class of the dataclasses for config tables.

    It checks choices (`Literal` fields) and ranges (`checks.Range` in the annotation; None is
    always allowed). Other rules are checked in the `__post_init__` of each table, which calls this
    one first. `PATH` is the table's name in error messages: `class Mean(Table,
    path="aggregation.rule")`.
    """

    PATH: ClassVar[str] = ""
    IS_OWN: ClassVar[bool] = False  # whether the class is an `OwnPart` (`own_part.py`)

    def __init_subclass__(cls, path: str | None = None) -> None:
        super().__init_subclass__()
        if path is not None:
            cls.PATH = path

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for key, hint in field_hints(cls).items():
            name, value = _join(self.PATH, key), getattr(self, key)
            if typing.get_origin(hint) is Literal:
                require_one_of(name, value, typing.get_args(hint))
            if value is not None and (rule := _ranges(cls).get(key)):
                rule.check(name, value)

    def require(self, holds: bool, key: str, rule: str, way_out: str = "") -> None:
        """Raises `ValueError` with the key, the rule and the value unless `holds` is true."""
        require(holds, _join(self.PATH, key), rule, getattr(self, key), way_out)

    @classmethod
    def of_arguments(cls, **arguments: Any) -> Self:
        """Builds the table from the arguments of a Python constructor.

        Error messages have the names of the arguments, without the name of the table.
        """
        try:
            return cls(**arguments)
        except ValueError as error:
            raise ValueError(str(error).replace(f"`{cls.PATH}.", "`")) from None

    def arguments(self) -> dict[str, Any]:
        """Returns the fields without the tag, as arguments of the function that they describe.

        >>> @dataclasses.dataclass(frozen=True)
        ... class Trimmed(Table):
        ...     name: Literal["trimmed"] = "trimmed"
        ...     fraction: float = 0.1
        >>> Trimmed().arguments()
        {'fraction': 0.1}
        """
        cls: Any = type(self)
        tag = tag_of(cls)
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(cls)
            if field.name != tag
        }


def build(hint: Any, values: Mapping[str, Any], prefix: str = "", default: Any = None) -> Any:
    """Builds the dataclass that `values` describes.

    Args:
      hint: A dataclass, or a union of dataclasses with tags.
      values: The table.
      prefix: Dotted name of the table, for error messages.
      default: An instance whose tag is used if the table has none.

    Raises:
      ConfigError: If a key is unknown or belongs to another variant, or a value has the wrong type
        or is out of range.
    """
    cls = class_of(hint, values, prefix, default)
    if getattr(cls, "IS_OWN", False):
        return cls.read(values, prefix)
    hints = field_hints(cls)
    defaults = {field.name: _default_of(field) for field in dataclasses.fields(cls)}
    if unknown := [key for key in values if key not in hints]:
        # An old tag explains the other keys: they belong to the variant that it chooses.
        old = [key for key in unknown if _join(prefix, key) in RENAMED_KEYS]
        raise ConfigError(_unknown((old or unknown)[0], prefix, hints, cls, variants(hint)))
    arguments = {}
    for key, value in values.items():
        arguments[key] = coerce(value, hints[key], _join(prefix, key), defaults[key])
    if missing := missing_fields(cls, arguments):
        raise ConfigError(f"`{_join(prefix, missing[0])}` is missing. It has no default.")
    try:
        return cls(**arguments)
    except ValueError as error:
        # A table that is used in several places has a general name in `PATH`.
        table = getattr(cls, "PATH", prefix)
        raise ConfigError(str(error).replace(f"`{table}.", f"`{prefix}.")) from None


def class_of(hint: Any, values: Mapping[str, Any], prefix: str = "", default: Any = None) -> Any:
    """Returns the dataclass of a table, chosen by its tag or the tag of the default.

    Raises `ConfigError` if the tag is unknown.
    """
    family = variants(hint)
    if not family:
        return hint
    key = tag_of(next(iter(family.values())))
    tag = values.get(key, getattr(default, key, None))
    if isinstance(tag, str) and tag in family:
        return family[tag]
    own_part = own_class(hint)
    names, way_out = list(family), ""
    if own_part is not None:
        names += own_part.registered_names()
        way_out = " Or name your own part: 'module:attribute' or 'file.py:attribute'."
        if isinstance(tag, str) and (is_reference(tag) or tag in names):
            return own_part
    near = difflib.get_close_matches(str(tag), names, n=1, cutoff=0.5)
    suggestion = f" Did you mean {near[0]!r}?" if near else way_out
    listed = ", ".join(map(repr, names))
    raise ConfigError(f"`{_join(prefix, key)}` must be one of {listed}, got {tag!r}.{suggestion}")


def own_class(hint: Any) -> Any:
    """Returns the `OwnPart` class of a tagged table; None if it does not take a user's own part."""
    if isinstance(hint, type) and "REGISTRY" in vars(hint):
        return vars(hint)["REGISTRY"].own_class
    options = typing.get_args(hint) if _is_union(hint) else (hint,)
    return next((one for one in options if getattr(one, "IS_OWN", False)), None)


def merge(
    hint: Any, below: Mapping[str, Any], above: Mapping[str, Any], default: Any = None
) -> Toml:
    """Returns the values of `below`, overridden by the values of `above`.

    A table that chooses another variant replaces the whole table below, because the keys of FedAtt
    have no meaning for FedMed. Unknown keys are kept; `build` reports them.

    Args:
      hint: As for `build`.
      below: The table of the base.
      above: The table that overrides it.
      default: As for `build`.
    """
    family = variants(hint)
    cls = hint
    if family:
        tag = tag_of(next(iter(family.values())))
        old = below.get(tag, getattr(default, tag, None))
        if above.get(tag, old) != old:
            return dict(above)
        old_tag = old if isinstance(old, str) else ""  # `build` reports a tag that is not a string
        cls = family.get(old_tag, next(iter(family.values())))
    hints = field_hints(cls)
    defaults = {field.name: _default_of(field) for field in dataclasses.fields(cls)}
    merged = dict(below)
    for key, value in above.items():
        old_value = merged.get(key)
        if _is_table(hints.get(key)) and isinstance(value, Mapping):
            old_table = old_value if isinstance(old_value, Mapping) else {}
            merged[key] = merge(hints[key], old_table, value, defaults[key])
        elif isinstance(value, Mapping) and _is_table(_value_hint(hints.get(key))):
            merged[key] = _merge_by_name(
                old_value if isinstance(old_value, Mapping) else {}, value, "type"
            )
        else:
            merged[key] = value
    return merged


def _merge_by_name(below: Mapping[str, Any], above: Mapping[str, Any], tag: str) -> Toml:
    """Merges tables of own parts by name. A table that names another part replaces the old one."""
    merged = dict(below)
    for name, table in above.items():
        old = merged.get(name)
        if isinstance(old, Mapping) and isinstance(table, Mapping):
            is_same = table.get(tag, old.get(tag)) == old.get(tag)
            table = {**old, **table} if is_same else table
        merged[name] = table
    return merged


def meanings(cls: type) -> dict[str, str]:
    """Returns key -> meaning, from the sections "Attributes:" of a class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        key = ""
        for line in section.splitlines():
            entry = _ENTRY.match(line.strip()) if re.match(r"  \w", line) else None
            if entry:
                key, texts[entry[1]] = entry[1], entry[2]
            elif key and line.startswith("   "):
                texts[key] += f" {line.strip()}"
    return texts


def documented_by(options: type) -> Callable[[type[_Class]], type[_Class]]:
    """Decorates a class whose arguments are options that a dataclass defines.

    In the docstring, "norm: See `FedAttConfig`." becomes the meaning of `norm` in `FedAttConfig`.
    """

    def decorate(cls: type[_Class]) -> type[_Class]:
        text = cls.__doc__ or ""
        for name, meaning in meanings(options).items():
            pointer = f"      {name}: See `{options.__name__}`."
            entry = textwrap.fill(
                f"{name}: {meaning}",
                100,
                initial_indent=" " * 6,
                subsequent_indent=" " * 8,
                break_on_hyphens=False,
            )
            text = text.replace(pointer, entry)
        cls.__doc__ = text
        return cls

    return decorate


def plain(value: Any) -> Any:
    """Converts dataclasses to nested plain values. Omits None, because TOML has no null."""
    if isinstance(value, Table) and value.IS_OWN:
        value = value.plain()  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        tag = tag_of(type(value))
        names.sort(key=lambda name: name != tag)  # the tag first, as in hand-written configs
        items = ((name, getattr(value, name)) for name in names)
        return {name: plain(item) for name, item in items if item is not None}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def variants(hint: Any) -> Mapping[str, type]:
    """Returns tag -> dataclass for a tagged dataclass, a union or a registry, otherwise {}."""
    if isinstance(hint, type) and "REGISTRY" in vars(hint):
        return vars(hint)["REGISTRY"]
    options = typing.get_args(hint) if _is_union(hint) else (hint,)
    options = tuple(option for option in options if not getattr(option, "IS_OWN", False))
    if not all(dataclasses.is_dataclass(option) and tag_of(option) for option in options):
        return {}
    return {typing.get_args(field_hints(option)[tag_of(option)])[0]: option for option in options}


def _unknown(
    key: str, prefix: str, allowed_keys: Mapping[str, Any], cls: type, family: Mapping[str, type]
) -> str:
    """Returns the error message for a key that `cls` does not have.

    If another class of its `family` has the key, the message names that class.
    """
    name = _join(prefix, key)
    if name in RENAMED_KEYS:
        return f"Unknown key `{name}`. It is called `{RENAMED_KEYS[name]}` now."
    owners = [tag for tag, other in family.items() if key in field_hints(other)]
    if owners:
        tag_key = tag_of(cls)
        tag = next(tag for tag, other in family.items() if other is cls)
        return (
            f"`{name}` has no effect with `{_join(prefix, tag_key)}` = {tag!r}: it belongs to "
            f"{_quoted_alternatives(owners)}. Remove it, or choose {_quoted_alternatives(owners)}."
        )
    return unknown_key(key, prefix, allowed_keys)


def unknown_key(key: str, prefix: str, keys: Iterable[str]) -> str:
    """Returns the error message for a key that a table does not have."""
    name, keys = _join(prefix, key), list(keys)
    kind = "key" if prefix else "section"
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    if near:
        return f"Unknown {kind} `{name}`. Did you mean `{_join(prefix, near[0])}`?"
    return f"Unknown {kind} `{name}`. Known: {', '.join(f'`{k}`' for k in keys)}."


def coerce(value: Any, hint: Any, name: str, default: Any = None) -> Any:
    """Checks one TOML value against a field's type. Converts integers for float fields."""
    if _is_table(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(f"`{name}` must be a section, got {value!r}. Write [{name}].")
        return build(hint, value, name, default)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_union(hint):
        return _coerce_union(value, arguments, name)
    if origin is Literal:
        return coerce(value, type(arguments[0]), name)  # `Table` checks the choice
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            raise _wrong(name, "a list", value)
        return origin(coerce(item, arguments[0], f"{name}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _wrong(name, "a table", value)
        return {key: coerce(item, arguments[1], f"{name}.{key}") for key, item in value.items()}
    if not is_plain(value, hint):
        raise _wrong(name, PLAIN_KINDS[hint], value)
    return float(value) if hint is float else value


def _coerce_union(value: Any, options: Iterable[Any], name: str) -> Any:
    """Converts a value to the first type of a union that accepts it."""
    errors = []
    for option in options:
        if option is type(None):
            continue
        try:
            return coerce(value, option, name)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _wrong(name: str, kind: str, value: Any) -> ConfigError:
    return ConfigError(f"`{name}` must be {kind}, got {value!r}.")


def tag_of(cls: type) -> str:
    """Returns the name of the first field that is a `Literal` of one value, or ""."""
    for name, hint in field_hints(cls).items():
        if typing.get_origin(hint) is Literal and len(typing.get_args(hint)) == 1:
            return name
    return ""


@functools.cache
def _ranges(cls: type) -> dict[str, Range]:
    """Returns field name -> range for the fields with a range in their annotation."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {
        field.name: extra
        for field in dataclasses.fields(cls)
        for part in (hints[field.name], *typing.get_args(hints[field.name]))
        for extra in getattr(part, "__metadata__", ())
        if isinstance(extra, Range)
    }


def _default_of(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _is_table(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or (_is_union(hint) and bool(variants(hint)))


def _value_hint(hint: Any) -> Any:
    """Returns the type of the values of a `dict` hint; None for other hints."""
    return typing.get_args(hint)[1] if typing.get_origin(hint) is dict else None


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _join(prefix: str, key: str) -> str:
    return f"{prefix}.{key}" if prefix else key


def _quoted_alternatives(tags: Iterable[str]) -> str:
    return " or ".join(map(repr, tags))
