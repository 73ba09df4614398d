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
    """Locks a file and yields its descriptor. Creates the file with mode 0600 if it does not exist.

    A symbolic link is an error.

    Args:
      path: The file.
      cannot: Builds the error for a file that cannot be opened, from the system's reason.
      taken: The error to raise if another process has locked the file.
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
