"""Files that are either complete or not there, also after a crash of the machine."""

import contextlib
import os
import pathlib
from collections.abc import Iterable

from tff_keyboard.program import errors

TEMPORARY_SUFFIX = ".partial"


def write_atomically(path: pathlib.Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Writes `chunks` beside `path`, forces them to disk, then renames.

    Raises:
      ProgramError: The directory cannot be written to or the disk is full. What was at `path`
        before is still there, unchanged.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise cannot_write(path, error) from error


def sync_directory(directory: pathlib.Path) -> None:
    """Makes renames in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: pathlib.Path) -> None:
    """Creates `path` and its parents when missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error


def remove_leftovers(directory: pathlib.Path) -> None:
    """Removes what a killed `write_atomically` left behind in `directory`."""
    for path in directory.glob("*" + TEMPORARY_SUFFIX):
        with contextlib.suppress(OSError):
            path.unlink()


def cannot_write(path: pathlib.Path, error: OSError) -> errors.ProgramError:
    """One line for a full disk, a read-only directory and their like."""
    return errors.ProgramError(
        f"Cannot write {path}: {error.strerror or error}. Nothing that was there is lost: free "
        "some space or fix the permissions, then run the same command again."
    )
