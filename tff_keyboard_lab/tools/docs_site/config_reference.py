"""Writes the page of the site that lists every config key with its default, values and meaning.

The text comes from the dataclasses of the config and of the registries, so it agrees with them.
"""

import dataclasses
import inspect
import itertools
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.parts.tables import meanings, own_class, tag_of, variants
from tff_keyboard.storage.checks import Range

PATH = "reference/config.md"
_HEAD = """# All config keys

Every key of a config with its default, its allowed values and its meaning. [Write a
config](../docs/configs.md) explains how to use them.
"""


def page() -> str:
    """Returns the page as Markdown."""
    sections = [_section(name, hint, default) for name, hint, default in _tables_in(RunConfig)]
    return "\n".join([_HEAD, *itertools.chain(*sections)])


def _section(path: str, hint: Any, default: Any) -> Iterator[str]:
    """Yields the lines of a table, and then the lines of the tables inside it."""
    family = variants(hint)
    yield f"## `[{path}]`\n"
    if not family:
        yield _description(hint) + "\n"
        yield from _keys(hint)
        inner = _tables_in(hint)
    else:
        tag = tag_of(type(default))
        yield f'`{tag}` selects a variant. The default is `"{getattr(default, tag)}"`.\n'
        if own_class(hint) is not None:
            yield "It can also name [your own part](../docs/own_parts.md).\n"
        for name, variant in family.items():
            yield f'### `{tag} = "{name}"`\n'
            yield _description(variant) + "\n"
            yield from _keys(variant, skip=tag)
        tables_by_name = {
            name: (name, hint, value)
            for one in family.values()
            for name, hint, value in _tables_in(one)
        }
        inner = list(tables_by_name.values())
    for name, inner_hint, value in inner:
        yield from _section(f"{path}.{name}", inner_hint, value)


def _tables_in(cls: Any) -> list[tuple[str, Any, Any]]:
    """Returns name, type and default of each field of a dataclass that is a table."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return [
        (field.name, hints[field.name], _default(field))
        for field in dataclasses.fields(cls)
        if _is_table(hints[field.name])
    ]


def _keys(cls: Any, skip: str = "") -> Iterator[str]:
    """Yields the table of a dataclass's own keys."""
    hints = typing.get_type_hints(cls, include_extras=True)
    texts = {key: text.replace("|", r"\|") for key, text in meanings(cls).items()}
    rows = [
        f"| `{field.name}` | {_default_text(_default(field))} | {_values(hints[field.name])} | "
        f"{texts.get(field.name, '')} |"
        for field in dataclasses.fields(cls)
        if field.name != skip and not _is_table(hints[field.name])
    ]
    if rows:
        yield "\n".join(["| key | default | values | meaning |", "|---|---|---|---|", *rows, ""])


def _is_table(hint: Any) -> bool:
    return bool(variants(hint)) or dataclasses.is_dataclass(hint)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _default_text(value: Any) -> str:
    """Returns a default as it stands in TOML, in Markdown."""
    if value is dataclasses.MISSING:
        return "required"
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return (
        f'`"{value}"`' if isinstance(value, str) else f"`{list(value) if value == () else value}`"
    )


def _values(hint: Any) -> str:
    """Returns the choices or the range of a key, or its type."""
    metadata: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        metadata, hint = hint.__metadata__, hint.__origin__
    for one in metadata:
        if isinstance(one, Range):
            return one.rule
    if typing.get_origin(hint) is Literal:
        return ", ".join(f'`"{choice}"`' for choice in typing.get_args(hint))
    return {bool: "true, false", str: "text", int: "integer", float: "number"}.get(hint, "")


def _description(cls: Any) -> str:
    """Returns the paragraphs of a docstring before "Attributes:", without its examples."""
    text, _, _ = inspect.cleandoc(cls.__doc__).partition("Attributes:\n")
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(one.replace("\n", " ") for one in paragraphs if one[:3] != ">>>")
