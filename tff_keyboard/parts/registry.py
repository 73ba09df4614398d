"""The parts of one kind, found by the name that a config gives as `type`.

A kind of part is a folder of modules without TensorFlow. Each module has one frozen dataclass: the
options of the part, with their defaults, ranges and descriptions. To add a part, add a module that
is named after it. Modules whose name starts with an underscore contain code of several parts.

    AGGREGATORS = Registry("tff_keyboard.aggregators.registry")
    AGGREGATORS["fedatt"]            # the class in registry/fedatt.py

The folder is imported when a name is first looked up, so that a module of the folder may import
this one, and importing a config imports no parts.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any


class Registry(Mapping[str, type]):
    """Maps the names of the parts in a folder to the classes of their options.

    Attributes:
      package: The package of the folder.
    """

    def __init__(self, package: str):
        self.package = package

    @functools.cached_property
    def own_class(self) -> type:
        """The class of the options of a user's own part of this kind, in the module `_own`."""
        module = importlib.import_module(f"{self.package}._own")
        return next(
            value
            for value in vars(module).values()
            if getattr(value, "IS_OWN", False) and value.__module__ == module.__name__
        )

    @functools.cached_property
    def _classes(self) -> dict[str, type]:
        package = importlib.import_module(self.package)
        classes = {}
        for info in pkgutil.iter_modules(package.__path__):
            if info.name.startswith("_"):
                continue
            module = importlib.import_module(f"{self.package}.{info.name}")
            classes[info.name] = _part_of(module, info.name)
        return classes

    def __getitem__(self, name: str) -> type:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


def _part_of(module: Any, name: str) -> type:
    """Returns the class of a module whose field `type` has the module's name as its default."""
    for value in vars(module).values():
        if isinstance(value, type) and getattr(value, "type", None) == name:
            return value
    raise TypeError(f"{module.__name__} must define a dataclass with `type` = '{name}'.")
