"""Folders of this user's alone, held by a descriptor instead of a name.

Whoever may write to a folder above can put another one in the place of ours, at any moment: /tmp of
a container need not be sticky. What is reached through the descriptor of an open folder
(`/proc/self/fd`) is in that folder, whatever its name says meanwhile; and where it belongs to
this user and only this user may write to it, nobody else has put it there.
"""

import os
import pathlib
import stat
import tempfile
from collections.abc import Iterator

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def temporary(run: pathlib.Path | None = None) -> Iterator[pathlib.Path]:
    """Where temporary things of a worker may lie, the best first; they may be missing."""
    found = [pathlib.Path(tempfile.gettempdir()), pathlib.Path("/tmp"), pathlib.Path("/dev/shm")]
    if own := os.environ.get("XDG_RUNTIME_DIR"):
        found.append(pathlib.Path(own))
    if run is not None:
        found.append(run)
    yield from dict.fromkeys(found)


def open_own(folder: pathlib.Path) -> int:
    """A descriptor of a folder of this user, to which nobody else may write."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        check_own(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def inside(descriptor: int) -> pathlib.Path:
    """The folder of a descriptor, in this process and in those that inherit it."""
    return pathlib.Path(f"/proc/self/fd/{descriptor}")


def check_own(found: os.stat_result) -> None:
    """Raises unless what was found is of this user, no link, and writable by nobody else."""
    if stat.S_ISLNK(found.st_mode):
        raise PermissionError("it is a link")
    if found.st_uid != os.geteuid():
        raise PermissionError("it belongs to another user")
    if found.st_mode & _OTHERS_WRITE:
        raise PermissionError("others may write to it")
