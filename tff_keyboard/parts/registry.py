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
import importlib.util
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any


class Registry(Mapping[str, type[Any]]):
    """Maps the names of the parts in a folder to the classes of their options.

    Attributes:
      package: The package of the folder.
      tag: The field of a class whose default is the name of its module.
    """

    def __init__(self, package: str, tag: str = "type"):
        self.package = package
        self.tag = tag

    @functools.cached_property
    def own_class(self) -> type | None:
        """The class of the options of a user's own part, in the module `_own`; None without one."""
        if importlib.util.find_spec(f"{self.package}._own") is None:
            return None
        module = importlib.import_module(f"{self.package}._own")
        return next(
            value
            for value in vars(module).values()
            if getattr(value, "IS_OWN", False) and value.__module__ == module.__name__
        )

    @functools.cached_property
    def _classes(self) -> dict[str, type]:
        """Returns the name and the options class of each module in the folder."""
        package = importlib.import_module(self.package)
        classes = {}
        for info in pkgutil.iter_modules(package.__path__):
            if info.name.startswith("_"):
                continue
            module = importlib.import_module(f"{self.package}.{info.name}")
            for value in vars(module).values():
                if isinstance(value, type) and getattr(value, self.tag, None) == info.name:
                    classes[info.name] = value
            if self.tag == "type" and info.name not in classes:
                raise TypeError(
                    f"{module.__name__} must define a dataclass with `type` = '{info.name}'."
                )
        return classes

    def __getitem__(self, name: str) -> type[Any]:
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)
