"""Distributions for tests: only the metadata that pip leaves in a folder of `sys.path`."""

import pathlib
from collections.abc import Mapping


def install(folder: pathlib.Path, name: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Writes `NAME-1.0.dist-info` with entry points.

    Args:
      folder: A folder that is put on `sys.path`.
      name: Name of the distribution.
      groups: Group -> name -> "module:attribute".
    """
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
