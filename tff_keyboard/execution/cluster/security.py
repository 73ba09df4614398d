"""Checks that a cluster is reached with a token and, from other machines, over TLS.

Anyone with access to a Ray cluster can run any code on it, and Ray listens on all interfaces,
whatever address it is given. Its token keeps strangers out, but without TLS the token is readable
on the network. Other users of a machine need no token: Ray's sockets and logs lie in directories
that every user can write, so these must lie in a directory that only one user can enter.
"""

import ipaddress
import os
import pathlib
import socket
import sys
from collections.abc import Mapping

from tff_keyboard.storage.errors import ClusterError

LOCAL = "local"
ADDRESS_VARIABLE = "RAY_ADDRESS"
_TLS_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
HOW = "See docs/cluster.md."
_REACH_SECONDS = 20.0


def address_of(configured: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns HOST:PORT of the head, or "local".

    The address comes from `execution.cluster.address` (`configured`) or the variable RAY_ADDRESS.
    Raises `ClusterError` if both are empty, or the address is malformed.
    """
    address = configured or environ.get(ADDRESS_VARIABLE, "")
    if not address:
        raise ClusterError(
            "`execution.engine` = 'ray' needs a cluster: set `execution.cluster.address` or "
            f"{ADDRESS_VARIABLE} to HOST:PORT of its head, or to 'local'. {HOW}"
        )
    host, _, port = address.rpartition(":")
    if address != LOCAL and ("/" in host or not (host and port.isdecimal())):
        raise ClusterError(
            f"The address of a cluster is HOST:PORT of its head, or 'local'; got {address!r}. {HOW}"
        )
    return address


def check(address: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises unless Ray is set to use a token and, for the address of another machine, TLS."""
    if address == LOCAL:
        return
    if environ.get("RAY_AUTH_MODE") != "token":
        raise ClusterError(
            f"The cluster at {address} must require a token, because every client that can connect "
            "can run code on it. Set RAY_AUTH_MODE=token on every machine, and copy "
            f"~/.ray/auth_token of the head, or set RAY_AUTH_TOKEN_PATH. {HOW}"
        )
    if environ.get("RAY_USE_TLS") == "1":
        missing = [name for name in _TLS_FILES if not pathlib.Path(environ.get(name, "")).is_file()]
        if missing:
            raise ClusterError(
                f"RAY_USE_TLS=1 requires files in {', '.join(missing)}: the certificate of this "
                f"machine, its key, and the certificate of the authority. {HOW}"
            )
    elif not is_loopback(address.rpartition(":")[0]):
        raise ClusterError(
            f"{address} is not on this machine, so RAY_USE_TLS=1 is required. Without TLS, "
            f"others on the network can read the token and all data. {HOW}"
        )


def check_reach(address: str) -> None:
    """Raises unless something answers at the address. Ray itself would wait without a message."""
    if address == LOCAL:
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"Nothing answers at {address} ({getattr(error, 'strerror', None) or error}). Is `ray "
            f"start --head` running there, and can this machine reach that port? {HOW}"
        ) from None


def is_private(directory: pathlib.Path) -> bool:
    """Checks if only this user can enter a directory: it, or one above it, is closed to others."""
    return any(
        (facts := folder.stat()).st_uid == os.getuid() and not facts.st_mode & 0o077
        for folder in (directory, *directory.parents)
    )


def directory_of_ray() -> pathlib.Path | None:
    """Returns the directory with Ray's sockets and logs; None if this process has not joined."""
    node = getattr(sys.modules.get("ray._private.worker"), "_global_node", None)
    return None if node is None else pathlib.Path(node.get_session_dir_path())


def directory_open_to_others() -> pathlib.Path | None:
    """Returns the directory of Ray if other users of this machine can enter it; otherwise None."""
    directory = directory_of_ray()
    return None if directory is None or is_private(directory) else directory


def check_directory() -> None:
    """Raises if other users of this machine can enter the directory of Ray."""
    directory = directory_open_to_others()
    if directory is not None:
        raise ClusterError(
            f"Other users of this machine can enter {directory.parent}, and so take over Ray's "
            "sockets and log files. Start the head with --temp-dir=DIRECTORY/ray, after "
            f"mkdir -m 700 DIRECTORY on every machine. {HOW}"
        )


def is_loopback(host: str) -> bool:
    """Checks if all addresses of a host are loopback addresses. Returns False for unknown hosts.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("10.0.0.1")
    (True, True, False)
    """
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), None)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in addresses)
