"""Finds public names without a docstring in griffe's objects. It does not import griffe."""

from collections.abc import Iterator
from typing import Any


def undocumented(value: Any) -> Iterator[str]:
    """Yields the dotted names without a docstring: the value, and a class's public methods.

    A method without a docstring takes the docstring of the base class's method.

    Args:
      value: Class, function or attribute, as a griffe object.
    """
    if not value.docstring:
        yield value.path
    if not value.is_class:
        return
    for name, member in value.all_members.items():
        if name.startswith("_") or "." in name:
            continue
        if not member.docstring:
            inherited = (base.members[name] for base in value.mro() if name in base.members)
            member.docstring = next((one.docstring for one in inherited if one.docstring), None)
        is_method = member.is_function or "property" in member.labels
        if is_method and not member.docstring:
            yield f"{value.path}.{name}"
