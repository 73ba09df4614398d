"""The copy of TFF's server that binds a socket file; made once for each installed TFF, 300 MB.

It lies in `~/.cache/tff-keyboard` (`XDG_CACHE_HOME` is respected), or, where that cannot be
written to, in a folder of this user beside temporary files. A copy is run only where this user owns
it and its folder, and nobody else may write to either: another user could have put it there. Copies
that nobody has used for a month are removed.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator

from tff_keyboard.program import errors, private_places
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError

UNUSED_SECONDS = 30 * 86400.0

_ON_ALL_INTERFACES = b"\0[::]:\0"
_ON_A_SOCKET_FILE = b"\0unix:\0"
_FOLDER = "tff-keyboard"


def socket_binary(worker_binary: pathlib.Path, run: pathlib.Path | None = None) -> pathlib.Path:
    """The copy of `worker_binary` that binds a socket file; made when it is missing.

    Args:
      worker_binary: TFF's program.
      run: The last place that is tried.

    Raises:
      NoPrivateEndpointError: The program is not one that this works for, or there is no place for
        the copy.
    """
    found = worker_binary.stat()
    name = f"{worker_binary.name}-{found.st_size}-{found.st_mtime_ns}"
    problems = []
    for folder in _folders(run):
        try:
            _make_own(folder)
            copy = folder.absolute() / name
            if not os.path.lexists(copy):
                files.write_atomically(copy, [_changed(worker_binary)], mode=0o700)
            private_places.check_own(copy)
            os.utime(copy)
            _remove_unused(folder, worker_binary.name, keep=copy)
        except OSError as error:
            problems.append(f"{folder} ({error.strerror or error})")
        except ProgramError as error:
            cause = error.__cause__
            problems.append(f"{folder} ({getattr(cause, 'strerror', None) or cause or error})")
        else:
            return copy
    raise errors.NoPrivateEndpointError(
        "The TFF worker finds no place for its program, 300 MB that only you may write to: "
        f"{', '.join(problems)}. Set XDG_CACHE_HOME to a folder of yours."
    )


def cache_directory() -> pathlib.Path:
    """Where the copy is kept.

    Raises:
      OSError: This user has no home.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return pathlib.Path(base).expanduser() / _FOLDER
    except RuntimeError:
        raise FileNotFoundError("this user has no home, and XDG_CACHE_HOME is not set") from None


def _folders(run: pathlib.Path | None) -> Iterator[pathlib.Path]:
    with contextlib.suppress(FileNotFoundError):
        cache = cache_directory()
        with contextlib.suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield cache
    for place in private_places.temporary(run):
        yield place / f"{_FOLDER}-{os.geteuid()}"


def _make_own(folder: pathlib.Path) -> None:
    """Makes a folder of mode 0700 unless it is there.

    Raises:
      OSError: Others could put a program there, or none may be run from there.
    """
    private_places.check(folder.parent)
    folder.mkdir(exist_ok=True, mode=0o700)
    private_places.check_own(folder)
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise PermissionError("no program may be run from there")


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
