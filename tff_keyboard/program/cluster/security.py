"""A cluster is reached with a token, and from other machines over TLS, or not at all.

Whoever reaches a Ray cluster runs any code on it, and Ray listens on all interfaces, whatever
address it is given. Its token keeps strangers out, and is readable on the wire without TLS.
"""

from __future__ import annotations

import ipaddress
import os
import pathlib
import socket
from collections.abc import Mapping

from tff_keyboard.program.errors import ClusterError

LOCAL = "local"
ADDRESS_VARIABLE = "RAY_ADDRESS"
_TLS_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
_HOW = "docs/cluster.md has the commands."


def address_of(configured: str, environ: Mapping[str, str] = os.environ) -> str:
    """HOST:PORT of the head, or "local", from `execution.cluster.address` or RAY_ADDRESS.

    Raises:
      ClusterError: Neither says, or it is no such address.
    """
    address = configured or environ.get(ADDRESS_VARIABLE, "")
    if not address:
        raise ClusterError(
            "`execution.engine` = 'ray' needs a cluster: set `execution.cluster.address` or "
            f"{ADDRESS_VARIABLE} to HOST:PORT of its head, or to 'local'. {_HOW}"
        )
    host, _, port = address.rpartition(":")
    if address != LOCAL and ("/" in host or not (host and port.isdecimal())):
        raise ClusterError(
            "The address of a cluster is HOST:PORT of its head, or 'local'; "
            f"got {address!r}. {_HOW}"
        )
    return address


def check(address: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises unless Ray is told to use a token and, for another machine's address, TLS.

    Args:
      address: As `address_of` returns it.
      environ: Ray's settings are environment variables.

    Raises:
      ClusterError: What is missing, and how to have it.
    """
    if address == LOCAL:
        return
    if environ.get("RAY_AUTH_MODE") != "token":
        raise ClusterError(
            f"The cluster at {address} must ask for a token: anybody who reaches it runs code "
            "on it. Set RAY_AUTH_MODE=token on every machine, and copy ~/.ray/auth_token of the "
            f"head, or its path in RAY_AUTH_TOKEN_PATH. {_HOW}"
        )
    if environ.get("RAY_USE_TLS") == "1":
        missing = [name for name in _TLS_FILES if not pathlib.Path(environ.get(name, "")).is_file()]
        if missing:
            raise ClusterError(
                f"RAY_USE_TLS=1 needs files in {', '.join(missing)}: the certificate of this "
                f"machine, its key, and that of the authority. {_HOW}"
            )
    elif not is_loopback(address.rpartition(":")[0]):
        raise ClusterError(
            f"{address} is not on this machine, so RAY_USE_TLS=1 is needed: without TLS "
            f"the token and everything else can be read on the wire. {_HOW}"
        )


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are this machine's loopback; False for an unknown one.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("10.0.0.1")
    (True, True, False)
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), None)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)
