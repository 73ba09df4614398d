"""The copy of TFF's server that binds a socket file; made once for each installed TFF, 300 MB.

It lies in `~/.cache/tff-keyboard` (`XDG_CACHE_HOME` is respected), or, where that cannot be
written to, in a folder of this user beside temporary files. A copy is run only where this user owns
it and its folder, and nobody else may write to either: another user could have put it there. Copies
that nobody has used for a month are removed.
"""

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator

from tff_keyboard.program import errors
from tff_keyboard.program.workers import private_places
from tff_keyboard.storage import files, in_progress
from tff_keyboard.storage.errors import ProgramError

UNUSED_SECONDS = 30 * 86400.0

_ON_ALL_INTERFACES = b"\0[::]:\0"
_ON_A_SOCKET_FILE = b"\0unix:\0"
_FOLDER = "tff-keyboard"


class WorkerCopy:
    """A copy of `worker_binary` that binds a socket file; made when it is missing.

    `folder` is a descriptor of its folder, which a process that starts `path` must inherit. Raises
    `NoPrivateEndpointError` if it does not work for this program, or there is no place.
    """

    def __init__(self, worker_binary: pathlib.Path, run: pathlib.Path | None = None):
        problems = []
        for folder in _folders(run):
            try:
                self.folder = _open_own(folder)
            except OSError as error:
                problems.append(f"{folder} ({error.strerror or error})")
                continue
            try:
                self.path = _copied(worker_binary, private_places.inside(self.folder))
                return
            except (OSError, ProgramError) as error:
                self.close()
                if isinstance(error, errors.NoPrivateEndpointError):
                    raise
                cause = error.__cause__ or error
                problems.append(f"{folder} ({getattr(cause, 'strerror', None) or cause})")
        raise errors.NoPrivateEndpointError(
            "The TFF worker finds no place for its program, 300 MB that only you may write to: "
            f"{', '.join(problems)}. Set XDG_CACHE_HOME to a folder of yours."
        )

    def close(self) -> None:
        """Lets go of the folder; a program that was started runs on."""
        os.close(self.folder)


def cache_directory() -> pathlib.Path:
    """Where the copy is kept; an `OSError` if this user has no home."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return pathlib.Path(base).expanduser() / _FOLDER
    except RuntimeError:
        raise FileNotFoundError("this user has no home, and XDG_CACHE_HOME is not set") from None


def _folders(run: pathlib.Path | None) -> Iterator[pathlib.Path]:
    with contextlib.suppress(FileNotFoundError):
        cache = cache_directory()
        with contextlib.suppress(OSError):
            in_progress.make_missing(cache.parent, 0o700)
        yield cache
    for place in private_places.temporary(run):
        yield place / f"{_FOLDER}-{os.geteuid()}"


def _open_own(folder: pathlib.Path) -> int:
    """A descriptor of a folder, which is made where it is missing."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = private_places.open_own(folder)
    if os.fstatvfs(descriptor).f_flag & os.ST_NOEXEC:
        os.close(descriptor)
        raise PermissionError("no program may be run from there")
    return descriptor


def _copied(worker_binary: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    found = worker_binary.stat()
    copy = folder / f"{worker_binary.name}-{found.st_size}-{found.st_mtime_ns}"
    if not os.path.lexists(copy):
        files.write_atomically(copy, [_changed(worker_binary)], mode=0o700)
    private_places.check_own(copy.lstat())
    with contextlib.suppress(OSError):  # a file system that is read only
        os.utime(copy)
    _remove_unused(folder, worker_binary.name, keep=copy)
    return copy


def _changed(worker_binary: pathlib.Path) -> bytearray:
    content = bytearray(worker_binary.read_bytes())
    place = content.find(_ON_ALL_INTERFACES)
    if place < 0 or content.find(_ON_ALL_INTERFACES, place + 1) >= 0:
        raise errors.NoPrivateEndpointError(
            f"{worker_binary} names its address in another way: install the locked packages again."
        )
    content[place : place + len(_ON_ALL_INTERFACES)] = _ON_A_SOCKET_FILE
    return content


def _remove_unused(folder: pathlib.Path, prefix: str, keep: pathlib.Path) -> None:
    """Removes copies, of other versions or installations, that have not been used for long."""
    for path in folder.glob(f"{prefix}-*"):
        with contextlib.suppress(OSError):
            if path != keep and time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                path.unlink()
