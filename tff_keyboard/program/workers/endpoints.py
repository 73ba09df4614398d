"""Where a TFF worker listens: on a socket file that nobody else may open.

`worker_binary` binds `[::]:port`, all interfaces, without TLS or a password, and computes any graph
it is sent; it has no option for another address. The address is one constant in its data, though,
as long as the text `unix:`. A copy of the program with those five bytes replaced
(`worker_copy.py`) binds `unix:port`, a socket file named by its port in its working directory. That
directory is ours, mode 0700, so only this user and root can connect, and no port is open at all.

This process holds the directory by a descriptor and connects through it (`private_places.py`):
nobody can put another in its place, and its name may be longer than that of a socket. Where no
place can be written to, or no copy be made, there is no worker, unless
`TFF_KEYBOARD_ALLOW_OPEN_PORT=1` says that the open port may be used; a warning then says so.
"""

import contextlib
import itertools
import os
import pathlib
import shutil
import socket
import tempfile
import warnings
from typing import TypeAlias

from tff_keyboard.program import errors
from tff_keyboard.program.workers import private_places, worker_copy
from tff_keyboard.storage import in_progress

ALLOW_VARIABLE = "TFF_KEYBOARD_ALLOW_OPEN_PORT"

_PREFIX = "tff-keyboard-socket-"
_numbers = itertools.count(1)  # of sockets: an address is never used twice, as a descriptor may be


def open_endpoint(worker_binary: pathlib.Path, run: pathlib.Path | None = None) -> "Endpoint":
    """A socket file, or a TCP port and a warning where that is allowed.

    Else a `NoPrivateEndpointError` where no socket file is possible.
    """
    try:
        return SocketFile(worker_copy.WorkerCopy(worker_binary, run), run)
    except errors.NoPrivateEndpointError as error:
        if os.environ.get(ALLOW_VARIABLE) != "1":
            raise errors.NoPrivateEndpointError(
                f"{error} Without a socket file the worker would listen on a TCP port, without a "
                f"password: set {ALLOW_VARIABLE}=1 to allow it where you trust everybody who can "
                "connect."
            ) from None
        warnings.warn(
            f"The TFF worker listens on a TCP port without a password, as {ALLOW_VARIABLE} "
            f"allows: {error}",
            stacklevel=3,
        )
        return TcpPort(worker_binary)


class SocketFile:
    """A Unix socket in a new directory of mode 0700, removed by `close`.

    The directory is locked while this is open. What killed programs left unlocked is removed first.
    A gRPC channel connects to `address`; `binary` is the program to start, with `--port=port`,
    `inherited`, `working_directory`.
    """

    def __init__(self, copy: worker_copy.WorkerCopy, run: pathlib.Path | None = None):
        self._copy = copy
        self.binary = copy.path
        self.inherited = (copy.folder,)
        self.port = next(_numbers)
        problems = []
        for place in private_places.temporary(run):
            try:
                self.directory, self._lock = _new_directory(place)
                break
            except OSError as error:
                problems.append(f"{place} ({error.strerror or error})")
        else:
            copy.close()
            raise errors.NoPrivateEndpointError(
                f"The TFF worker finds no place for its socket: {', '.join(problems)}. Set TMPDIR "
                "to a folder that you may write to."
            )
        self.working_directory = private_places.inside(self._lock)
        self._path = self.working_directory / str(self.port)
        self.address = f"unix:{self._path}"

    def is_listening(self) -> bool:
        """Whether a server takes connections."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            probe.connect(str(self._path))
            return True
        return False

    def close(self) -> None:
        """Gives the address back."""
        shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self._lock)
        self._copy.close()


class TcpPort:
    """A free port of this machine, kept from others until `close`."""

    working_directory: pathlib.Path | None = None
    inherited: tuple[int, ...] = ()

    def __init__(self, binary: pathlib.Path):
        self.binary = binary
        # With SO_REUSEPORT on both sides the server may bind it, too; this socket never listens.
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


Endpoint: TypeAlias = SocketFile | TcpPort


def _new_directory(place: pathlib.Path) -> tuple[pathlib.Path, int]:
    """A new directory and the descriptor that holds it, and its lock."""
    in_progress.remove_unlocked(place, _PREFIX)
    while True:
        path = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place)).absolute()
        with contextlib.suppress(FileNotFoundError):  # as where it could not be locked
            descriptor = private_places.open_own(path)
            if in_progress.lock(descriptor, path):
                return path, descriptor
            os.close(descriptor)  # another process took it for a leftover
