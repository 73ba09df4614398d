"""Finds the parts that installed packages register through entry points.

Any package can register a part in its `pyproject.toml`:

    [project.entry-points."tff_keyboard.model_files"]
    trie = "my_package.trie:open_trie"

The groups are:

    tff_keyboard.commands     name of a package -> its commands (`command_line/commands.py`)
    tff_keyboard.engines      `execution.engine` of a config -> function that opens the engine
                              (`training/run_stores.py`)
    tff_keyboard.aggregators, .client_algorithms, .server_optimizers, .models, .text_sources
                              short name of a part in a config -> the part (`parts/own_part.py`)
    tff_keyboard.model_files  suffix of a model file -> function that opens the file
                              (`command_line/predictors.py`)

A part is imported when it is first used. Source: the entry points specification,
https://packaging.python.org/en/latest/specifications/entry-points/.
"""

import functools
import importlib.util
from collections.abc import Mapping
from importlib import metadata

from tff_keyboard.storage.errors import ProgramError


@functools.cache
def find(group: str) -> Mapping[str, metadata.EntryPoint]:
    """Returns the entry points of a group by name, without importing the parts.

    Leaves out the entry points of packages that are not installed. A distribution can be installed
    without some of its packages, as the images in `docker/` are.

    Raises:
      ProgramError: If two entry points have the same name.
    """
    points: dict[str, metadata.EntryPoint] = {}
    for point in metadata.entry_points(group=group):
        if importlib.util.find_spec(point.module.partition(".")[0]) is None:
            continue
        if point.name in points:
            raise ProgramError(
                f"Two packages register '{point.name}' in the entry points `{group}`: "
                f"{points[point.name].value} and {point.value}. Uninstall one of the packages."
            )
        points[point.name] = point
    return points
