"""Griffe's extension for the site's reference: what a reader of one public name needs beside it.

- A method that implements one of a base class has the docstring of that one.
- A class shows the attributes that its bases document.
- The first name of a module shows the module's docstring where that has equations.
- A public name, method or property without docstring is a warning, so a strict build fails.
"""

import logging
from typing import Any

import griffe

from tff_keyboard import SURFACE
from tools.docs_site.documented import undocumented

_log = logging.getLogger("mkdocs.hooks.reference")


class Reference(griffe.Extension):
    """Completes the docstrings of the public surface, once a package is read."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Griffe's event."""
        shown = set()
        for names in SURFACE.values():
            for origin in names.values():
                package, _, path = origin.partition(".")
                if package != pkg.name:
                    continue
                value = pkg[path]
                for missing in undocumented(value):
                    _log.warning("`%s` has no docstring.", missing)
                if value.docstring and value.is_class:
                    _inherit_attributes(value)
                if value.docstring and value.module.path not in shown:
                    shown.add(value.module.path)
                    _show_equations(value)


def _inherit_attributes(value: griffe.Class) -> None:
    own = _attributes(value)
    for base in value.mro():
        if base.docstring:
            known = {attribute.name for attribute in own.value}
            own.value += [one for one in _attributes(base).value if one.name not in known]
    if own.value and own not in value.docstring.parsed:
        value.docstring.parsed.append(own)


def _attributes(value: griffe.Class) -> Any:
    for section in value.docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.attributes:
            return section
    return griffe.DocstringSectionAttributes([])


def _show_equations(value: Any) -> None:
    text = value.module.docstring.value if value.module.docstring else ""
    if "\n    " in text:
        value.docstring.parsed.insert(1, griffe.DocstringSectionText(text))
