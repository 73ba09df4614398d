"""A file that one process at a time may write."""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Callable, Iterator

from tff_keyboard.storage import errors, files


@contextlib.contextmanager
def held(
    path: pathlib.Path, *, cannot: Callable[[str], errors.UserError], taken: errors.UserError
) -> Iterator[int]:
    """Holds a file, made for its owner's eyes only where it is absent; links are refused.

    `cannot` makes the error of a file that cannot be opened, from the system's reason; `taken` is
    that of one which another process holds. Yields the descriptor, to read and write.
    """
    try:
        descriptor = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, files.OWNER_ONLY
        )
    except OSError as error:
        raise cannot(str(error.strerror)) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise taken from None
        yield descriptor
    finally:
        os.close(descriptor)
