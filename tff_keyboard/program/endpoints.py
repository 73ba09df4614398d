"""Where a TFF worker listens: on a socket file that nobody else may open, or on a TCP port.

`worker_binary` binds `[::]:port`, all interfaces, without TLS or a password, and computes any graph
it is sent; it has no option for another address. The address is one constant in its data, though,
as long as the text `unix:`. A copy of the program with those five bytes replaced binds
`unix:port`, a socket file named by its port in its working directory. That directory is ours, mode
0700, so only this user and root can connect, and no port is open at all.

The copy (300 MB) is made once for each installed TFF, in `~/.cache/tff-keyboard`
(`XDG_CACHE_HOME` is respected), and only if the constant occurs exactly once. Where it cannot be
made, the worker listens on TCP and says so once in a warning.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import tempfile
import warnings
from typing import Protocol

from tff_keyboard.program import errors
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError

_ON_ALL_INTERFACES = b"\0[::]:\0"
_ON_A_SOCKET_FILE = b"\0unix:\0"
_LONGEST_SOCKET_PATH = 107  # bytes, `sun_path` of Linux without its final zero
_SOCKET_NAME = "1"  # what --port gives
_PREFIX = "tff-keyboard-worker-"


class Endpoint(Protocol):
    """A place for one worker to listen, reserved by the constructor and freed by `close`.

    Attributes:
      address: What a gRPC channel connects to.
      binary: The program to start.
      port: Its flag `--port`.
      working_directory: Where to start it; None: anywhere.
    """

    address: str
    binary: pathlib.Path
    port: int
    working_directory: pathlib.Path | None

    def is_listening(self) -> bool:
        """Whether a server takes connections."""
        ...

    def close(self) -> None:
        """Gives the address back."""
        ...


def open_endpoint(worker_binary: pathlib.Path) -> Endpoint:
    """A socket file where that is possible, else a TCP port and one warning.

    Args:
      worker_binary: TFF's program.
    """
    try:
        return SocketFile(socket_binary(worker_binary))
    except (ProgramError, OSError) as error:
        warnings.warn(
            f"The TFF worker listens on a TCP port without a password: {error} Use a machine or "
            "network namespace that you share with nobody you do not trust.",
            stacklevel=3,
        )
        return TcpPort(worker_binary)


class SocketFile:
    """A Unix socket in a new directory of mode 0700, removed by `close`.

    Directories that killed programs of this user left behind are removed first.
    """

    def __init__(self, binary: pathlib.Path):
        _remove_leftovers()
        self.binary = binary
        self.port = int(_SOCKET_NAME)
        self.working_directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._path = self.working_directory / _SOCKET_NAME
        self.address = f"unix:{self._path}"
        if len(os.fsencode(self._path)) > _LONGEST_SOCKET_PATH:
            self.close()
            raise errors.WorkerError(f"{self._path} is too long for the name of a socket.")

    def is_listening(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            probe.connect(str(self._path))
            return True
        return False

    def close(self) -> None:
        shutil.rmtree(self.working_directory, ignore_errors=True)


class TcpPort:
    """A free port of this machine, kept from others until `close`.

    With SO_REUSEPORT on both sides the server may bind the port as well. The reserving socket never
    listens, so all connections go to the server.
    """

    working_directory = None

    def __init__(self, binary: pathlib.Path):
        self.binary = binary
        self._reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reservation.bind(("127.0.0.1", 0))
        self.port = self._reservation.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def is_listening(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0),
        ):
            return True
        return False

    def close(self) -> None:
        self._reservation.close()


def socket_binary(worker_binary: pathlib.Path) -> pathlib.Path:
    """The copy of `worker_binary` that binds a socket file; made when it is missing.

    Raises:
      WorkerError: The program is not one that this works for.
      ProgramError, OSError: The copy cannot be written.
    """
    found = worker_binary.stat()
    name = f"{worker_binary.name}-{found.st_size}-{found.st_mtime_ns}"
    copy = cache_directory() / name
    if copy.exists():
        return copy
    content = bytearray(worker_binary.read_bytes())
    place = content.find(_ON_ALL_INTERFACES)
    if place < 0 or content.find(_ON_ALL_INTERFACES, place + 1) >= 0:
        raise errors.WorkerError(f"{worker_binary} names its address in another way.")
    content[place : place + len(_ON_ALL_INTERFACES)] = _ON_A_SOCKET_FILE
    copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write_atomically(copy, [content], mode=0o700)
    return copy


def _remove_leftovers() -> None:
    """Removes directories named after processes that are gone."""
    for path in pathlib.Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not pathlib.Path(f"/proc/{owner}").exists():
            shutil.rmtree(path, ignore_errors=True)  # another user's stays: it may not be opened


def cache_directory() -> pathlib.Path:
    """Where the copy is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(base).expanduser() / "tff-keyboard"
