"""Files that are made aside, checked there, and appear whole or not at all."""

import contextlib
import os
import pathlib
import secrets
import shutil
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def staging_directory(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """A new hidden directory beside `target`, on its file system; gone in the end in any case.

    An OSError on the way is raised again under the name of `target`, which is what the person asked
    for.
    """
    directory = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir()
        yield directory
    except OSError as error:
        if error.filename is None or str(directory) in str(error.filename):
            error.filename = str(target)
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def write_durably(path: pathlib.Path, data: bytes) -> None:
    """Writes a file and waits until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def publish(staged: Sequence[pathlib.Path], directory: pathlib.Path) -> None:
    """Renames finished files into `directory`, in this order, and makes the renames durable."""
    for path in staged:
        path.replace(directory / path.name)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
