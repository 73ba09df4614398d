"""Files that are either complete or not there, also after a kill or a crash of the machine.

Writing happens in a hidden file beside the place; it is forced to disk, renamed, and the rename is
forced to disk. Links are never followed: a link at the place is replaced, not written through.
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from tff_keyboard.storage import errors, in_progress

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ADD = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC

ANYONE = 0o666  # what the umask leaves of it
OWNER_ONLY = 0o600


def write_atomically(
    path: pathlib.Path, chunks: Iterable[bytes | memoryview], *, mode: int = ANYONE
) -> None:
    """Makes or replaces the file `path`; the umask takes from `mode`.

    Raises `ProgramError` if the directory cannot be written to or the disk is full. What was at
    `path` before is still there, unchanged.
    """
    with open_atomically(path, mode=mode) as file:
        for chunk in chunks:
            file.write(chunk)


@contextlib.contextmanager
def open_atomically(path: pathlib.Path, *, mode: int = ANYONE) -> Iterator[IO[bytes]]:
    """Like `write_atomically`, for a writer that wants a file; on an error `path` is as before."""
    work = None
    try:
        in_progress.remove_leftovers(path)
        work, descriptor = _new_file(path, mode)
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor, not a path)
            yield file
            file.flush()
            os.fsync(file.fileno())
            work.replace(path)  # while the lock is held: nobody takes it for a leftover
        work = None
        in_progress.sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if work is not None:
            with contextlib.suppress(OSError):
                work.unlink()


def append(path: pathlib.Path, data: bytes, *, mode: int = ANYONE) -> None:
    """Adds `data` to the end of a file, which is made where absent; returns when it is on disk.

    Raises `ProgramError` if it cannot be written, or `path` is a link: the file is as it was
    before.
    """
    try:
        descriptor = os.open(path, _ADD, mode)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        length = os.fstat(descriptor).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, length)
            raise cannot_write(path, error) from error
    finally:
        os.close(descriptor)


def make_directory(path: pathlib.Path, *, mode: int = in_progress.PARENT) -> None:
    """Creates `path` and its parents when missing; nobody else may write to them.

    The umask takes from `mode`, the permissions of `path` itself if it is made here. Raises
    `ProgramError` if there is no permission, or a file is in the way.
    """
    try:
        in_progress.make_missing(path, mode)
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: pathlib.Path, error: OSError) -> errors.ProgramError:
    """One line for a full disk, a read-only directory and their like."""
    return errors.ProgramError(
        f"Cannot write {path}: {error.strerror or error}. Nothing that was there is lost: free "
        "some space or fix the permissions, then run the same command again."
    )


def read_bytes(path: pathlib.Path) -> bytes:
    """The content of a file of a run.

    Raises `RunDirectoryError` if it is missing or cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise errors.RunDirectoryError(
            f"{path} is missing. Restore it from a copy, or use another run directory."
        ) from None
    except OSError as error:
        raise errors.RunDirectoryError(f"Cannot read {path}: {error.strerror}.") from None


def read_text(path: pathlib.Path) -> str:
    """Like `read_bytes`, but UTF-8.

    Raises `RunDirectoryError` if it is missing, cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise damaged(path, "it is not UTF-8 text") from None


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Like `read_text`, but a JSON object.

    Raises `RunDirectoryError` if it is missing, cannot be read, or holds something else.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise damaged(path, "it is not JSON") from None
    if not isinstance(content, dict):
        raise damaged(path, "it does not hold a JSON object")
    return content


def may_pass(error: Exception) -> bool:
    """Whether SQLite says that the disk is full or does not answer, or the file is in use."""
    import sqlite3  # is there, if it made an error

    full, busy = sqlite3.SQLITE_FULL, (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (full, *busy, sqlite3.SQLITE_IOERR)


def damaged(path: pathlib.Path, what: str) -> errors.RunDirectoryError:
    """One line for a file that is not what we wrote."""
    return errors.RunDirectoryError(
        f"{path} is damaged: {what}. Restore it from a copy, or use another run directory."
    )


def _new_file(path: pathlib.Path, mode: int) -> tuple[pathlib.Path, int]:
    while True:
        work = in_progress.new_name(path)
        descriptor = os.open(work, _NEW, mode)
        if in_progress.lock(descriptor, work):
            return work, descriptor
        os.close(descriptor)
