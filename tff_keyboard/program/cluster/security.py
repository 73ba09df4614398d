"""A cluster is reached with a token, and from other machines over TLS, or not at all.

Whoever reaches a Ray cluster runs any code on it, and Ray listens on all interfaces, whatever
address it is given. Its token keeps strangers out, and is readable on the wire without TLS.
"""

import contextlib
import ipaddress
import os
import pathlib
import socket
import ssl
from collections.abc import Mapping

from tff_keyboard.program.cluster import certificates
from tff_keyboard.program.errors import ClusterError

LOCAL = "local"
ADDRESS_VARIABLE = "RAY_ADDRESS"
_TLS_FILES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
_HOW = "docs/cluster.md has the commands."
_REACH_SECONDS = 20.0


def address_of(configured: str, environ: Mapping[str, str] = os.environ) -> str:
    """HOST:PORT of the head, or "local", from `execution.cluster.address` or RAY_ADDRESS.

    A `ClusterError` if neither says, or it is no such address.
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
    """Raises unless Ray is told to use a token and, for another machine's address, TLS."""
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


def check_reach(address: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises unless the head answers and, with TLS, the certificates of both sides fit.

    Ray would wait, or end this process without a word. So a connection is made before Ray makes its
    own: the head's certificate must be of our authority and name the head; ours must name the
    address by which the cluster reaches this machine.
    """
    if address == LOCAL:
        return
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), _REACH_SECONDS) as connection:
            own = _own_address(str(connection.getsockname()[0]))
            if environ.get("RAY_USE_TLS") == "1":
                _check_head(connection, host, environ)
    except ClusterError:
        raise
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"Nothing answers at {address} ({getattr(error, 'strerror', None) or error}). Is `ray "
            f"start --head` running there, and may this machine reach that port? {_HOW}"
        ) from None
    if environ.get("RAY_USE_TLS") == "1":
        _check_own(own, environ)


def _check_head(connection: socket.socket, host: str, environ: Mapping[str, str]) -> None:
    _, context = _contexts(environ)
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        raise ClusterError(
            f"The head's certificate does not fit: {error.verify_message} It must be of the "
            f"authority in RAY_TLS_CA_CERT and name {host}: make it anew there with `tff-keyboard "
            f"cluster certificate --name={host}`."
        ) from None
    except (ssl.SSLError, OSError) as error:
        raise ClusterError(
            f"The head at {host} does not speak TLS with us ({error}). Start it with RAY_USE_TLS=1 "
            f"and certificates of the same authority. {_HOW}"
        ) from None


def _check_own(own: str, environ: Mapping[str, str]) -> None:
    """Like `check_reach`, but shows our certificate to ourselves, as server and as client."""
    server, client = _contexts(environ)
    try:
        _handshake(server, client, own)
    except ssl.SSLCertVerificationError as error:
        named = certificates.names_of(pathlib.Path(environ["RAY_TLS_SERVER_CERT"]))
        raise ClusterError(
            f"The certificate in RAY_TLS_SERVER_CERT does not fit: {error.verify_message} It names "
            f"{', '.join(named) or 'nobody'}; it must be of the authority in RAY_TLS_CA_CERT and "
            f"name {own}, by which the cluster reaches this machine. Make it anew with "
            f"`tff-keyboard cluster certificate --name={own}`."
        ) from None


def _contexts(environ: Mapping[str, str]) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server and of a client that trust the authority alone and show our
    certificate."""
    certificate, key, authority = (environ[name] for name in _TLS_FILES)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.verify_mode = ssl.CERT_REQUIRED
    try:
        for context in (server, client):
            context.load_verify_locations(authority)
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ClusterError(
            f"The files of {', '.join(_TLS_FILES)} do not fit together or cannot be read "
            f"({error}). `tff-keyboard cluster certificate` makes all three."
        ) from None
    return server, client


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Between both, in memory; raises what one of them does not accept of the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):  # flights; TLS has four
        for side in sides:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


def _own_address(found: str) -> str:
    """Where others reach this machine: Ray takes this address in place of a loopback one."""
    if not ipaddress.ip_address(found).is_loopback:
        return found
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: asks which address would
        return str(probe.getsockname()[0])
    return found


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
