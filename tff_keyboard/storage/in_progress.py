"""Unfinished files: hidden names, a lock while their process lives, and removal afterwards.

An unfinished `target` has the name `.<target>.in-progress-<random>` and is locked (`flock`) by the
process that writes it. The kernel releases the lock when the process ends, for any reason. An
unlocked name was therefore left by a kill, and the next process of the same user may remove it.
Files of other users under such a name are left alone, and a file that cannot be removed stays and
is not an error.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
import secrets
import shutil
import stat
from collections.abc import Iterator

_MARK = ".in-progress-"

# Not writable by others: with write permission they could rename even private files in it.
PARENT = 0o755


def prefix(target: pathlib.Path) -> str:
    """Returns the start of all names of unfinished work for `target`."""
    return f".{target.name}{_MARK}"


def is_leftover_name(name: str) -> bool:
    """Checks if a file name belongs to unfinished work for any target."""
    return name.startswith(".") and _MARK in name


def new_name(target: pathlib.Path) -> pathlib.Path:
    """Returns a new random name for unfinished work, next to `target`."""
    return target.with_name(prefix(target) + secrets.token_hex(8))


def lock(descriptor: int, path: pathlib.Path) -> bool:
    """Locks newly created work. Returns False if another process has removed it as a leftover.

    In that case the caller creates it again.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return True  # a file system without locks, where no leftovers are removed
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def remove_leftovers(target: pathlib.Path) -> None:
    """Removes the unfinished work that killed processes left for `target`, if permitted."""
    for path in beginning_with(target.parent, prefix(target)):
        _remove_unless_locked(path)


def remove_all_leftovers(directory: pathlib.Path) -> None:
    """Removes the unfinished work that killed processes left in `directory`, for any target."""
    for path in beginning_with(directory, "."):
        if is_leftover_name(path.name):
            _remove_unless_locked(path)


@contextlib.contextmanager
def held_unless_locked(path: pathlib.Path, *, require_owner: bool = False) -> Iterator[bool]:
    """Locks `path` during the block. Yields False if a living process has locked it.

    With `require_owner`, also yields False, without locking, if another user owns `path`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield False  # removed meanwhile, or not permitted
        return
    try:
        if require_owner and os.fstat(descriptor).st_uid != os.geteuid():
            yield False
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        yield free
    finally:
        os.close(descriptor)


def make_missing(directory: pathlib.Path, mode: int = PARENT) -> None:
    """Creates a directory with permissions `mode` if it is missing, and its parents with `PARENT`.

    Raises `OSError` if a permission is missing, or a file is in the way.
    """
    try:
        directory.mkdir(mode=mode)
    except FileNotFoundError:
        if directory.parent == directory:
            raise
        make_missing(directory.parent)
        directory.mkdir(mode=mode, exist_ok=True)
    except OSError:
        if not directory.is_dir():
            raise


def sync(path: pathlib.Path) -> None:
    """Waits until the content of a file, or the names in a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync directories
            raise
    finally:
        os.close(descriptor)


def beginning_with(directory: pathlib.Path, start: str) -> list[pathlib.Path]:
    """Returns the entries of `directory` whose names begin with `start`.

    Returns an empty list if the directory cannot be read.
    """
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return [pathlib.Path(entry.path) for entry in entries if entry.name.startswith(start)]
    return []


def remove(path: pathlib.Path) -> None:
    """Removes a file, a link or a directory, as far as possible. Ignores errors."""
    # `rmtree` is recursive and fails for very deep directories.
    with contextlib.suppress(OSError, RecursionError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _remove_unless_locked(path: pathlib.Path) -> None:
    with held_unless_locked(path, require_owner=True) as free:
        if free:
            remove(path)
