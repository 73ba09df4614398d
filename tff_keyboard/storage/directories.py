"""Directories that appear complete or not at all, and replace an existing directory as a whole.

The files are written to a hidden sibling of the target, which takes the target's place once all of
them are on disk. An existing directory is renamed first, and removed afterwards. A kill between the
two renames leaves the old directory under a hidden name, where `restore` finds it. Readers call
`restore` before they report that the directory is missing.
"""

import contextlib
import errno
import os
import pathlib
import shutil
import stat
from collections.abc import Collection, Iterator

from tff_keyboard.storage import in_progress

_REPLACED = ".replaced-"

PRIVATE = 0o700
PUBLIC = 0o777  # before the umask


@contextlib.contextmanager
def new_directory(
    target: pathlib.Path, *, replaces: Collection[str] = (), mode: int = PUBLIC
) -> Iterator[pathlib.Path]:
    """Yields an empty directory, which becomes `target` when the block ends without an error.

    An existing directory at `target` is replaced and removed, without a question, if it is empty or
    has only files that are named in `replaces`. Missing parents are created.

    Args:
      target: The directory to create.
      replaces: Names of the files that an existing directory may have.
      mode: Permissions of the directory, before the umask. With `PRIVATE`, group and others also
        lose their permissions on all files in it.

    Raises:
      OSError: If the permission or disk space is missing, or `target` is a file, a link, or a
        directory with other names in it. The error names `target`, which is unchanged.
    """
    target = target.absolute()
    check_replaceable(target, replaces)
    with scratch_directory(target, replaces=replaces, mode=mode) as work:
        check_replaceable(target, replaces)  # it may be restored now
        yield work
        for path in work.rglob("*"):
            if mode == PRIVATE:
                path.chmod(stat.S_IMODE(path.stat().st_mode) & PRIVATE)
            in_progress.sync(path)
        in_progress.sync(work)
        _put_in_place(work, target, replaces)


def check_replaceable(target: pathlib.Path, replaces: Collection[str]) -> None:
    """Raises `OSError` unless `target` is missing or a directory that `new_directory` replaces."""
    if target.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, which is not followed", str(target))
    if not target.exists():
        return
    if not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    if foreign_names := _other_names(target, replaces):
        raise OSError(
            errno.ENOTEMPTY,
            f"it has {foreign_names[0]!r} in it, which would be deleted; move it elsewhere",
            str(target),
        )


@contextlib.contextmanager
def scratch_directory(
    target: pathlib.Path, *, replaces: Collection[str] = (), mode: int = PUBLIC
) -> Iterator[pathlib.Path]:
    """Yields a hidden directory next to `target`, and removes it when the block ends.

    Creates missing parents of `target`. `replaces` is as in `new_directory`. An `OSError` in the
    block is raised again with the name of `target`, because the user does not know the hidden name.
    """
    descriptor, work = -1, None
    try:
        in_progress.make_missing(target.parent)
        restore(target)
        remove_leftovers(target, replaces)
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


def restore(target: pathlib.Path) -> None:
    """Renames the old directory back if a kill left `target` missing."""
    with contextlib.suppress(OSError):
        for path in _replaced_directories(target):
            with in_progress.held_unless_locked(path) as free:
                if free and not target.exists():
                    path.rename(target)


def remove_leftovers(target: pathlib.Path, replaces: Collection[str]) -> None:
    """Removes the hidden directories that killed processes left for `target`.

    Of a directory that was replaced, only the files in `replaces` are removed.
    """
    in_progress.remove_leftovers(target)
    for path in _replaced_directories(target):
        with in_progress.held_unless_locked(path, require_owner=True) as free:
            if free and target.exists():
                _remove_files(path, replaces)


def _new_work(target: pathlib.Path, mode: int) -> tuple[pathlib.Path, int]:
    """Creates a directory next to `target` and locks it. Returns its path and the lock."""
    while True:
        work = in_progress.new_name(target)
        work.mkdir(mode=mode)
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(work, os.O_RDONLY | os.O_CLOEXEC)
            if in_progress.lock(descriptor, work):
                return work, descriptor
            os.close(descriptor)


def _put_in_place(work: pathlib.Path, target: pathlib.Path, replaces: Collection[str]) -> None:
    """Renames `work` to `target`, and deletes the directory that was there."""
    check_replaceable(target, replaces)
    if target.exists():
        old = target.with_name(f".{target.name}{_REPLACED}{work.name[-16:]}")
        with in_progress.held_unless_locked(target):  # so that no other process restores it
            target.rename(old)
            try:
                work.rename(target)
            except OSError:
                old.rename(target)
                raise
            in_progress.sync(target.parent)
            _remove_files(old, replaces)
    else:
        work.rename(target)
        in_progress.sync(target.parent)


def _replaced_directories(target: pathlib.Path) -> list[pathlib.Path]:
    """Returns the directories that were replaced at `target`, but not removed yet."""
    return in_progress.beginning_with(target.parent, f".{target.name}{_REPLACED}")


def _other_names(directory: pathlib.Path, replaces: Collection[str]) -> list[str]:
    """Returns the names in a directory that it must not lose: other files, and folders."""
    with os.scandir(directory) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.name not in replaces or entry.is_dir(follow_symlinks=False)
        )


def _remove_files(directory: pathlib.Path, replaces: Collection[str]) -> None:
    """Removes these files and the directory, unless it has others. Ignores errors."""
    with contextlib.suppress(OSError):
        if not _other_names(directory, replaces):
            for name in replaces:
                (directory / name).unlink(missing_ok=True)
            directory.rmdir()
