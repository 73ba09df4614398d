"""Work in progress beside its place: hidden names, a lock while its process lives, removal after.

The work for `target` has the name `.<target>.in-progress-<random>` and is locked (`flock`) by the
process that makes it. The kernel gives the lock back when the process ends in any way, so a name
without a lock was left by a kill and may be removed by the next one of the same user that comes
along. What another user made under such a name, in a folder that all may write to, is left alone,
and what cannot be removed stays and stops nobody.
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

# Whoever may write to a directory may rename what is in it, private as that may be.
PARENT = 0o755


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
    """Locks open work that was just made; False when another process took it for a leftover and
    removed it: make it again."""
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
    """Like `remove_leftovers`, for all targets in `directory`."""
    for path in beginning_with(directory, "."):
        if is_leftover_name(path.name):
            _remove_unless_locked(path)


def remove_unlocked(directory: pathlib.Path, start: str) -> None:
    """Removes what is in `directory` under a name with this start and locked by nobody."""
    for path in beginning_with(directory, start):
        _remove_unless_locked(path)


@contextlib.contextmanager
def held_unless_locked(path: pathlib.Path, *, own: bool = False) -> Iterator[bool]:
    """Whether no living process has `path` locked; it is locked here meanwhile.

    With `own` it must be this user's, too; another's is not even locked.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield False  # gone meanwhile, or none of ours
        return
    try:
        if own and os.fstat(descriptor).st_uid != os.geteuid():
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
    """Makes a directory of this mode where there is none, and its parents, as `PARENT`.

    Raises `OSError` if there is no permission, or a file is in the way.
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


def remove(path: pathlib.Path) -> None:
    """Removes a file, a link or a directory as far as it can be; what is left stays where it is."""
    # `rmtree` goes down by recursion: a deep directory is more than it can do.
    with contextlib.suppress(OSError, RecursionError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _remove_unless_locked(path: pathlib.Path) -> None:
    with held_unless_locked(path, own=True) as free:
        if free:
            remove(path)
