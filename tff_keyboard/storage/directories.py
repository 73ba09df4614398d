"""A directory that appears whole or not at all, also over one that is there already.

Work happens in a hidden sibling, which takes the place of the target when all its files are on
disk. A directory that is there is exchanged with it in one step (`renameat2`, `RENAME_EXCHANGE`),
so a kill leaves the old one or the new one in place, and a sibling that the next process removes.

On a file system that cannot exchange (NFS) the old directory steps aside first. A kill between the
two renames then leaves it under a hidden name, where `restore` finds it; readers call `restore`
before they say that nothing is there.
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import shutil
import stat
from collections.abc import Iterator

from tff_keyboard.storage import in_progress

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EXDEV)
_REPLACED = ".replaced-"


PRIVATE = 0o700
PUBLIC = 0o777  # what the umask leaves of it


@contextlib.contextmanager
def new_directory(target: pathlib.Path, *, mode: int = PUBLIC) -> Iterator[pathlib.Path]:
    """Gives an empty directory to fill; on leaving without error it becomes `target`.

    A directory that was at `target` is replaced and removed: ask before. Where `target` is a link
    to a directory, that directory is replaced and the link stays. Missing parents are made.
    `PRIVATE` takes from files, too, what others could do with them, whoever made them. Raises
    `OSError` for no permission, no space, a file at `target`, which it names and leaves unchanged.
    """
    target = (target.resolve() if target.is_symlink() else target).absolute()
    with scratch_directory(target, mode=mode) as work:
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
        yield work
        for path in work.rglob("*"):
            if mode == PRIVATE:
                path.chmod(stat.S_IMODE(path.stat().st_mode) & PRIVATE)
            in_progress.sync(path)
        in_progress.sync(work)
        put_in_place(work, target)


@contextlib.contextmanager
def scratch_directory(target: pathlib.Path, *, mode: int = PUBLIC) -> Iterator[pathlib.Path]:
    """A hidden directory beside `target`, whose parents are made; gone in the end in any case.

    An OSError on the way is raised again under the name of `target`, which the person asked for.
    """
    descriptor, work = -1, None
    try:
        in_progress.make_missing(target.parent)
        restore(target)
        remove_leftovers(target)
        work, descriptor = _new_work(target, mode)
        yield work
    except OSError as error:
        if error.filename is None or (work is not None and str(work) in str(error.filename)):
            error.filename = str(target)
        raise
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        if descriptor >= 0:
            os.close(descriptor)


def put_in_place(work: pathlib.Path, target: pathlib.Path) -> None:
    """Renames `work` to `target`, or exchanges them where `target` is there.

    Raises `OSError` if it cannot be done; both are as before.
    """
    try:
        exchange(work, target)
    except FileNotFoundError:
        work.rename(target)
    except OSError as error:
        if error.errno not in _CANNOT_EXCHANGE:
            raise
        _step_aside(work, target)
    in_progress.sync(target.parent)


def exchange(one: pathlib.Path, other: pathlib.Path) -> None:
    """Exchanges two names in one step, as the kernel does it.

    Raises `OSError` if one is missing, or kernel, C library or file system cannot do it.
    """
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(other)) from None
    names = [os.fsencode(path) for path in (one, other)]
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def restore(target: pathlib.Path) -> None:
    """Puts back a directory that stepped aside before its successor came, if there is one."""
    with contextlib.suppress(OSError):
        for path in _replaced(target):
            with in_progress.held_unless_locked(path) as free:
                if free and not target.exists():
                    path.rename(target)


def remove_leftovers(target: pathlib.Path) -> None:
    """Removes what killed processes left for `target`."""
    in_progress.remove_leftovers(target)
    for path in _replaced(target):
        with in_progress.held_unless_locked(path, own=True) as free:
            if free and target.exists():
                in_progress.remove(path)


def _new_work(target: pathlib.Path, mode: int) -> tuple[pathlib.Path, int]:
    while True:
        work = in_progress.new_name(target)
        work.mkdir(mode=mode)
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(work, os.O_RDONLY | os.O_CLOEXEC)
            if in_progress.lock(descriptor, work):
                return work, descriptor
            os.close(descriptor)


def _step_aside(work: pathlib.Path, target: pathlib.Path) -> None:
    old = target.with_name(f".{target.name}{_REPLACED}{work.name[-16:]}")
    with in_progress.held_unless_locked(target):  # so that nobody restores it meanwhile
        target.rename(old)
        try:
            work.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _replaced(target: pathlib.Path) -> list[pathlib.Path]:
    return in_progress.beginning_with(target.parent, f".{target.name}{_REPLACED}")
