"""Work in progress beside its place: hidden names, a lock while its process lives, removal after.

The work for `target` has the name `.<target>.in-progress-<random>` and is locked (`flock`) by the
process that makes it. The kernel gives the lock back when the process ends in any way, so a name
without a lock was left by a kill and may be removed by the next one that comes along.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
import secrets
import shutil
from collections.abc import Iterator

_MARK = ".in-progress-"


def prefix(target: pathlib.Path) -> str:
    """What the names of all work for `target` begin with."""
    return f".{target.name}{_MARK}"


def is_leftover_name(name: str) -> bool:
    """Whether work in progress, of whatever target, is called like this."""
    return name.startswith(".") and _MARK in name


def new_name(target: pathlib.Path) -> pathlib.Path:
    """A name for new work, beside `target`."""
    return target.with_name(prefix(target) + secrets.token_hex(8))


def lock(descriptor: int, path: pathlib.Path) -> bool:
    """Locks open work that was just made.

    Returns:
      False when another process took it for a leftover and removed it: make it again.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return True  # a file system without locks: nobody removes anything there
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def remove_leftovers(target: pathlib.Path) -> None:
    """Removes what killed processes left for `target`; does nothing where it may not write."""
    remove_unlocked(target.parent, prefix(target))


def remove_all_leftovers(directory: pathlib.Path) -> None:
    """As `remove_leftovers`, for all targets in `directory`."""
    for path in beginning_with(directory, "."):
        if is_leftover_name(path.name):
            _remove_unless_locked(path)


def remove_unlocked(directory: pathlib.Path, start: str) -> None:
    """Removes what is in `directory` under a name with this start and locked by nobody."""
    for path in beginning_with(directory, start):
        _remove_unless_locked(path)


@contextlib.contextmanager
def held_unless_locked(path: pathlib.Path) -> Iterator[bool]:
    """Whether no living process has `path` locked; it is locked here meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield False  # gone meanwhile, or none of ours
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        yield free
    finally:
        os.close(descriptor)


def sync(path: pathlib.Path) -> None:
    """Waits until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync directories
            raise
    finally:
        os.close(descriptor)


def beginning_with(directory: pathlib.Path, start: str) -> list[pathlib.Path]:
    """What is in `directory` under a name with this start; nothing where it cannot be read."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return [pathlib.Path(entry.path) for entry in entries if entry.name.startswith(start)]
    return []


def _remove_unless_locked(path: pathlib.Path) -> None:
    with held_unless_locked(path) as free:
        if not free:
            return
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
