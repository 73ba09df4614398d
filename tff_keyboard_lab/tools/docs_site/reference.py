"""Griffe's extension for the site's reference, which completes the docstrings of public names.

- A method that implements a base class's method has the docstring of that method.
- A class shows the attributes that its bases document.
- The first name of a module shows the module's docstring if that has equations.
- A public name, method or property without docstring is a warning, so a strict build fails.
"""

import logging
import re
from typing import Any

import griffe

from tff_keyboard_lab.tools.docs_site.documented import undocumented
from tff_keyboard_lab.tools.docs_site.equations import with_latex
from tff_keyboard_lab.tools.docs_site.surface import SURFACE

_log = logging.getLogger("mkdocs.hooks.reference")
# An example at the margin; those of a section "Examples:" are indented, and known to griffe.
_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


class Reference(griffe.Extension):
    """Completes the docstrings of the public surface after a package is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Handles griffe's event."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Handles griffe's event."""
        modules_with_equations = set()
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
                if value.docstring and value.module.path not in modules_with_equations:
                    modules_with_equations.add(value.module.path)
                    _show_equations(value)


def fenced(text: str) -> str:
    """Returns a docstring whose examples are blocks of code.

    >>> fenced("Adds one.\\n\\n>>> f(1)\\n2")
    'Adds one.\\n\\n```python\\n>>> f(1)\\n2\\n```'
    """
    return _EXAMPLE.sub(lambda match: f"```python\n{match.group()}\n```", text)


def _inherit_attributes(value: griffe.Class) -> None:
    """Adds the documented attributes of base classes to those of a class."""
    attributes = _attributes(value)
    for base in value.mro():
        if base.docstring:
            names = {attribute.name for attribute in attributes.value}
            attributes.value += [one for one in _attributes(base).value if one.name not in names]
    if attributes.value and attributes not in value.docstring.parsed:
        value.docstring.parsed.append(attributes)


def _attributes(value: griffe.Class) -> Any:
    for section in value.docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.attributes:
            return section
    return griffe.DocstringSectionAttributes([])


def _show_equations(value: Any) -> None:
    """Adds the module's docstring to that of a name, if it has an indented block."""
    text = value.module.docstring.value if value.module.docstring else ""
    if "\n    " in text:
        value.docstring.parsed.insert(1, griffe.DocstringSectionText(with_latex(text)))
