"""Folders in which nobody else can replace what this user put there.

A file is as trustworthy as every folder above it: whoever may write to one of them can rename what
it holds and put something else in its place, unless the folder is sticky, as /tmp is.
"""

from __future__ import annotations

import os
import pathlib
import stat
import tempfile
from collections.abc import Iterator

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def temporary(run: pathlib.Path | None = None) -> Iterator[pathlib.Path]:
    """Where temporary things of a worker may lie, the best first; they may be missing.

    Args:
      run: A directory of the run, the last of all.
    """
    found = {pathlib.Path(tempfile.gettempdir()): None, pathlib.Path("/tmp"): None}
    found[pathlib.Path("/dev/shm")] = None
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        found[pathlib.Path(own)] = None
    if run is not None:
        found[run] = None
    yield from found


def check(folder: pathlib.Path) -> None:
    """Raises where another user could replace what this user puts into `folder`.

    Raises:
      OSError: So it is, or the folder is missing.
    """
    root = pathlib.Path("/").stat().st_uid  # of all users, in a namespace of its own, too
    for path in [resolved := folder.resolve(strict=True), *resolved.parents]:
        found = path.stat()
        if found.st_uid not in (os.geteuid(), root):
            raise PermissionError(f"{path} belongs to another user")
        if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
            raise PermissionError(f"others may write to {path}")


def check_own(path: pathlib.Path) -> None:
    """Raises unless `path` is of this user, no link, and writable by nobody else.

    Raises:
      OSError: It is not, or is missing.
    """
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise PermissionError(f"{path} is a link")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    if found.st_mode & _OTHERS_WRITE:
        raise PermissionError(f"others may write to {path}")
