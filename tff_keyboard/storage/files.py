"""Files that are either complete or absent, even after a kill or a power failure; reading them.

The content is written to a hidden file in the same directory, synced to disk and renamed, and the
rename is synced too. Symbolic links are never followed: a link at the path is replaced, and its
target is not changed; readers of runs refuse it, because its target may be a secret of the user.

A run directory may be made by an attacker. `open_regular` opens nothing but regular files: a reader
of a pipe would wait for ever, and one of a device would fill the memory. Files that are read as a
whole have at most `MAX_BYTES`, and those with one table or object `MAX_TABLE_BYTES`.
"""

import contextlib
import errno
import os
import pathlib
import stat
from collections.abc import Iterable, Iterator
from typing import IO, Any

from tff_keyboard.storage import errors, in_progress, json_text

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ADD = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

MAX_BYTES = 2**30  # a line of 1 KB for each of a million rounds, or 16 million digests of clients
MAX_TABLE_BYTES = 2**26  # configs, data cards and descriptions of models have a few KB

ANYONE = 0o666  # before the umask
OWNER_ONLY = 0o600


def write_atomically(
    path: pathlib.Path, chunks: Iterable[bytes | memoryview], *, mode: int = ANYONE
) -> None:
    """Creates or replaces the file `path`.

    Args:
      path: The file.
      chunks: Its content, in order.
      mode: Permissions, before the umask.

    Raises:
      ProgramError: If the directory is not writable or the disk is full. An existing file is
        unchanged.
    """
    with open_atomically(path, mode=mode) as file:
        for chunk in chunks:
            file.write(chunk)


@contextlib.contextmanager
def open_atomically(path: pathlib.Path, *, mode: int = ANYONE) -> Iterator[IO[bytes]]:
    """Yields a file to write, which becomes `path` when the block ends without an error.

    Otherwise like `write_atomically`.
    """
    work = None
    try:
        in_progress.remove_leftovers(path)
        work, descriptor = _new_file(path, mode)
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, not a path)
            yield file
            file.flush()
            os.fsync(file.fileno())
            work.replace(path)  # while locked, so that it is not removed as a leftover
        work = None
        in_progress.sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if work is not None:
            with contextlib.suppress(OSError):
                work.unlink()


def append(path: pathlib.Path, data: bytes, *, mode: int = ANYONE) -> None:
    """Appends `data` to a file and waits until it is on disk. Creates a missing file.

    Raises `ProgramError` if the file cannot be written or is a link. The file is then unchanged.
    """
    try:
        descriptor = os.open(path, _ADD, mode)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        try:
            _check_regular(path, descriptor)
        except OSError as error:
            raise cannot_write(path, error) from error
        length = os.fstat(descriptor).st_size
        try:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[os.write(descriptor, unwritten) :]
            os.fsync(descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, length)
            raise cannot_write(path, error) from error
    finally:
        os.close(descriptor)


def make_directory(
    path: pathlib.Path, *, mode: int = in_progress.PARENT, is_part: bool = False
) -> None:
    """Creates `path` and its parents if missing. Only their owner can write to them.

    Args:
      path: The directory.
      mode: Permissions of `path` itself if it is created, before the umask.
      is_part: Whether it is part of a directory of ours. A link is then an error; otherwise the
        user named the path, which may be a link to a directory.

    Raises:
      ProgramError: If the permission is missing, or a file is in the way.
    """
    try:
        if is_part and path.is_symlink():
            raise OSError(errno.ELOOP, "it is a link, which is not followed", str(path))
        in_progress.make_missing(path, mode)
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: pathlib.Path, error: OSError) -> errors.ProgramError:
    """Returns the error for a full disk, a read-only directory and similar failures."""
    return errors.ProgramError(
        f"Cannot write {path}: {error.strerror or error}. Existing files are unchanged. Free "
        "some space or fix the permissions, then run the same command again."
    )


@contextlib.contextmanager
def open_regular(path: pathlib.Path, *, follow_link: bool = False) -> Iterator[IO[bytes]]:
    """Opens a regular file to read. Never waits for a pipe.

    Args:
      path: The file.
      follow_link: Whether the file may be a symbolic link, for example in a cache of downloads.

    Raises:
      OSError: If the file is missing, cannot be read, or is not a regular file.
    """
    if not follow_link and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, which is not followed", str(path))
    descriptor = os.open(path, _READ | (0 if follow_link else os.O_NOFOLLOW))
    with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
        _check_regular(path, descriptor)
        yield file


def content(path: pathlib.Path, *, follow_link: bool = False, max_bytes: int = MAX_BYTES) -> bytes:
    """Returns the content of a regular file of at most `max_bytes`.

    Raises `OSError` as `open_regular`, or if the file is larger.
    """
    with open_regular(path, follow_link=follow_link) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes", str(path))
        return file.read(size)


def _check_regular(path: pathlib.Path, descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.ENOTSUP, "it is not a regular file", str(path))


def read_bytes(path: pathlib.Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Returns the content of a file of a run.

    Raises `RunDirectoryError` if the file is missing, cannot be read, is not a regular file, or has
    more than `max_bytes`.
    """
    try:
        return content(path, max_bytes=max_bytes)
    except FileNotFoundError:
        raise errors.RunDirectoryError(
            f"{path} is missing. Restore it from a copy, or use another run directory."
        ) from None
    except OSError as error:
        raise errors.RunDirectoryError(f"Cannot read {path}: {error.strerror}.") from None


def read_text(path: pathlib.Path, *, max_bytes: int = MAX_BYTES) -> str:
    """Returns the content of a UTF-8 file.

    Raises `RunDirectoryError` as `read_bytes`, or if the file is not UTF-8.
    """
    try:
        return read_bytes(path, max_bytes=max_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise damaged(path, "it is not UTF-8 text") from None


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Raises `RunDirectoryError` as `read_bytes`, or if the file has no JSON object.
    """
    try:
        value = json_text.parse(read_bytes(path, max_bytes=MAX_TABLE_BYTES))
    except json_text.InvalidJsonError as error:
        raise damaged(path, str(error)) from None
    if not isinstance(value, dict):
        raise damaged(path, "it does not hold a JSON object")
    return value


def is_transient(error: Exception) -> bool:
    """Checks if SQLite reports a temporary problem: a full or failing disk, or a file in use."""
    import sqlite3  # Python may be built without it, but then there is no such error

    full, busy = sqlite3.SQLITE_FULL, (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (full, *busy, sqlite3.SQLITE_IOERR)


def damaged(path: pathlib.Path, what: str) -> errors.RunDirectoryError:
    """Returns the error for a file with invalid content."""
    return errors.RunDirectoryError(
        f"{path} is damaged: {what}. Restore it from a copy, or use another run directory."
    )


def _new_file(path: pathlib.Path, mode: int) -> tuple[pathlib.Path, int]:
    """Creates a file next to `path` and locks it. Returns its path and descriptor."""
    while True:
        work = in_progress.new_name(path)
        descriptor = os.open(work, _NEW, mode)
        if in_progress.lock(descriptor, work):
            return work, descriptor
        os.close(descriptor)
