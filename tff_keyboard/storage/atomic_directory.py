"""A directory that appears whole or not at all.

Work happens in a hidden sibling, which is renamed when all its files are on disk.
A process that is killed leaves such a sibling behind; the next one removes it. The
sibling is locked while its process lives, so that nobody removes work in progress.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def new_directory(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a directory to fill; on leaving without error it becomes `target`.

    A directory that was at `target` is replaced and removed: ask before.

    Args:
      target: Where the directory shall be; its parents are made.

    Yields:
      An empty directory on the same file system.

    Raises:
      OSError: No permission, no space.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)
    work = pathlib.Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
    work.chmod(0o777 & ~_umask())
    lock = os.open(work, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: nobody cleans up either
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield work
        for file in work.rglob("*"):
            _sync(file)
        _sync(work)
        if target.exists():
            old = work.with_name(work.name + ".old")
            target.rename(old)
            work.rename(target)
            shutil.rmtree(old)
        else:
            work.rename(target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _prefix(target: pathlib.Path) -> str:
    return f".{target.name}.in-progress-"


def _remove_leftovers(target: pathlib.Path) -> None:
    """Removes what killed processes left for this target."""
    for leftover in target.parent.glob(f"{_prefix(target)}*"):
        try:
            lock = os.open(leftover, os.O_RDONLY)
        except OSError:
            continue  # gone meanwhile
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(leftover, ignore_errors=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(lock)


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
