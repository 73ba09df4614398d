"""Serves the application on a port, with TLS and threads, and limits slow or greedy clients.

A connection has a thread only while it has data to read, and only for a limited time. If other
connections wait for a thread, the oldest ones lose theirs; those that have not sent their header
lose it sooner. If there are too many connections, those that were idle for longest are closed.
Clients that send a byte now and then can therefore not block the others, unless more than `THREADS`
of them start within `HURRIED_SECONDS`.
"""

import contextlib
import datetime
import errno
import hashlib
import io
import ipaddress
import math
import pathlib
import resource
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from cheroot import connections, server, wsgi
from cheroot.ssl import builtin
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError

CERTIFICATE, KEY = "tls.crt", "tls.key"
HEADER_SECONDS = 10.0  # for handshake and headers
REQUEST_SECONDS = 120.0  # for all of a request and its answer
SHARED_SECONDS = 20.0  # for which a connection keeps its thread while others wait for one
HURRIED_SECONDS = 2.0  # the same, until the whole header is there
LINGER_SECONDS = 0.02  # for which a thread waits for the next request of its connection
IDLE_SECONDS = 10.0  # between two bytes, and between two requests
LONGEST_HEADER = 16 * 1024  # bytes
THREADS = 64
MOST_CONNECTIONS = 4096  # at a time
BUFFER_BYTES = 16 * 1024  # for each direction of a connection: one TLS record
BACKLOG = 512  # connections that wait to be accepted

_DAYS = 825  # for which a generated certificate is valid
_FILES = 512  # open files reserved for other purposes than connections


class RoundServer:
    """Serves an application until `stop`.

    Args:
      app: The WSGI application.
      host: Address to listen on.
      port: Port to listen on; 0 for any free one.
      certificate: PEM files of the certificate and its key. If None, plain HTTP, for tests and
        proxies.

    Attributes:
      port: The port on which it listens.

    Raises:
      ProgramError: If the address cannot be used, or the certificate cannot be read.
    """

    def __init__(
        self, app: Any, host: str, port: int, certificate: tuple[pathlib.Path, pathlib.Path] | None
    ):
        self._server = _Server(
            (host, port),
            app,
            numthreads=THREADS,
            max=THREADS,
            request_queue_size=BACKLOG,
            timeout=IDLE_SECONDS,
            server_name="tff-keyboard",
        )
        self._server.max_request_header_size = LONGEST_HEADER
        try:
            if certificate is not None:
                self._server.ssl_adapter = _Tls(*map(str, certificate))
            self._server.prepare()
        except (OSError, OverflowError, ssl.SSLError) as error:
            raise ProgramError(
                f"Cannot serve on {host}:{port}: {error}. Choose another --host or --port, or pass "
                "a certificate and its key in PEM."
            ) from None
        self.port: int = self._server.bind_addr[1]
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in ((self._server.serve, "rounds"), (self._server.hurry, "hurry"))
        ]

    def start(self) -> None:
        """Starts to answer, in its own threads. Raises the limit of open files to its maximum."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if most != resource.RLIM_INFINITY:
            self._server.most_open = min(MOST_CONNECTIONS, max(most - _FILES, most // 2))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stops after the current requests are answered."""
        self._server.is_over.set()
        self._server.stop()
        for thread in self._threads:
            thread.join()


class _Tls(builtin.BuiltinSSLAdapter):
    """TLS 1.2 or later. The connection's thread does the handshake, not the listener's."""

    def __init__(self, certificate: str, key: str):
        super().__init__(certificate, key)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


class _Request(server.HTTPRequest):
    """A request whose body has its own time limit."""

    def parse_request(self) -> None:
        try:
            super().parse_request()
        except ValueError:  # an invalid address
            self.simple_response("400 Bad Request")
        self.conn.has_header = True
        self.conn.wfile.flush()  # a client that sent "Expect: 100-continue" waits for the answer
        self.conn.until = time.monotonic() + REQUEST_SECONDS

    def simple_response(self, status: str, msg: str = "") -> None:
        """Answers an invalid request. An unknown encoding or version is the client's error, 400."""
        is_theirs = status[:3] in ("501", "505")
        super().simple_response("400 Bad Request" if is_theirs else status, msg)


class _Counted(socket.SocketIO):
    """A socket that counts the bytes that were read."""

    count = 0

    def readinto(self, into: Any) -> int | None:
        """Reads from the socket."""
        size = super().readinto(into)
        self.count += size or 0
        return size


class _Reader(io.BufferedReader):
    """The part of cheroot's reader that a connection needs, in half the time."""

    def __init__(self, sock: socket.socket):
        self._counted = _Counted(sock, "r")
        self._taken = 0
        super().__init__(self._counted, BUFFER_BYTES)

    def read(self, size: int | None = -1) -> bytes:
        """Reads like a file."""
        data = super().read(size)
        self._taken += len(data)
        return data

    def readline(self, size: int | None = -1) -> bytes:
        """Reads a line like a file."""
        line = super().readline(size)
        self._taken += len(line)
        return line

    def has_data(self) -> bool:
        """Returns whether the buffer has data."""
        return self._counted.count > self._taken


def _file(sock: socket.socket, mode: str, _: int) -> _Reader | io.BufferedWriter:
    """Returns a reader or writer for a connection, in place of cheroot's.

    An answer is sent as a whole, because each part would cost a TLS record and a system call.
    """
    if "r" in mode:
        return _Reader(sock)
    return io.BufferedWriter(socket.SocketIO(sock, "w"), BUFFER_BYTES)


class _Connection(server.HTTPConnection):
    """A connection that is closed if it takes too long."""

    RequestHandlerClass = _Request
    has_waited = False  # for its first bytes
    is_greeted = has_header = False
    since = until = 0.0  # of the request

    def __init__(self, of: "_Server", sock: socket.socket, makefile: Any):
        super().__init__(of, sock, _file)

    def communicate(self) -> bool:
        """Answers requests and returns whether the connection stays open.

        Continues as long as the next request follows at once and no connection waits for the
        thread.
        """
        while self._one_request():
            has_more = self._has_more()
            if self.server.requests.qsize or not (has_more or self._follows()):
                return True
        return False

    def _has_more(self) -> bool:
        if isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            self.rfile.peek(1)  # fills the buffer, because `has_data` looks only there
        return bool(self.rfile.has_data())

    def _follows(self) -> bool:
        ready = select.poll()
        ready.register(self.socket, select.POLLIN)
        return bool(ready.poll(1000 * LINGER_SECONDS))

    def _one_request(self) -> bool:
        self.since = time.monotonic()
        self.until = self.since + HEADER_SECONDS
        self.has_header = False
        self.server.busy[self] = None
        try:
            if not self.is_greeted and isinstance(self.socket, ssl.SSLSocket):
                self.socket.do_handshake()
            self.is_greeted = True
            stays = bool(super().communicate())  # type: ignore[no-untyped-call]
            self.wfile.flush()
            return stays
        except OSError:
            return False
        finally:
            del self.server.busy[self]

    def close(self) -> None:
        """Closes the connection.

        If the other end has closed it already, no error ends the thread.
        """
        self.server.open.discard(self)
        with contextlib.suppress(OSError, ValueError):
            super().close()


class _Connections(connections.ConnectionManager):
    """Connections that wait for their next bytes."""

    _selector: Any
    _expire: Callable[[float], None]

    def _from_server_socket(self, server_socket: socket.socket) -> _Connection | None:
        if len(self.server.open) >= self.server.most_open:
            self._make_room()
        try:
            connection: _Connection | None = super()._from_server_socket(  # type: ignore[misc]
                server_socket
            )
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):  # no more files may be opened
                self._make_room()
            return None
        if connection is not None:
            self.server.open.add(connection)
        return connection

    def _make_room(self) -> None:
        """Closes the twentieth of the connections that was idle for longest."""
        idle = sorted(
            conn.last_used for _, conn in self._selector.connections if conn is not self.server
        )
        if idle:
            self._expire(math.nextafter(idle[len(idle) // 20], math.inf))
        else:
            time.sleep(0.05)  # until some requests are answered


class _Server(wsgi.Server):
    ConnectionClass = _Connection

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.busy: dict[_Connection, None] = {}
        self.open: set[_Connection] = set()
        self.most_open = MOST_CONNECTIONS
        self.is_over = threading.Event()

    def prepare(self) -> None:
        """Starts to listen."""
        super().prepare()
        self._connections: connections.ConnectionManager
        self._connections.close()
        self._connections = _Connections(self)

    def process_conn(self, conn: _Connection) -> None:
        """Gives a connection a thread when it has data to read."""
        if conn.has_waited:
            super().process_conn(conn)
        else:
            conn.has_waited = True
            self.put_conn(conn)

    def put_conn(self, conn: _Connection) -> None:
        """Waits for the next bytes of a connection. Closes it if the client has gone."""
        try:
            super().put_conn(conn)
        except (OSError, ValueError, KeyError):
            conn.close()

    def hurry(self) -> None:
        """Closes connections whose time is over, which ends the reads of their threads.

        Also closes the oldest connections, one for each connection that waits for a thread.
        """
        while not self.is_over.wait(0.25):
            now, waiting = time.monotonic(), self.requests.qsize
            for conn in list(self.busy):
                patience = SHARED_SECONDS if conn.has_header else HURRIED_SECONDS
                is_shared = waiting > 0 and now > conn.since + patience
                waiting -= is_shared
                if is_shared or now > conn.until:
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(conn.socket, socket.SHUT_RDWR)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Logs nothing: the errors are made by clients, and messages may quote their data."""


def open_certificate(directory: pathlib.Path, host: str) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns certificate and key of the server.

    Generates them at the first start: self-signed, P-256.

    Args:
      directory: Folder of the two files.
      host: Name or address by which devices reach it; loopback is added.

    Raises:
      ProgramError: If a certificate cannot have this name.
    """
    certificate, key_file = directory / CERTIFICATE, directory / KEY
    if certificate.exists() and key_file.exists():
        return certificate, key_file
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, "tff-keyboard rounds")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [_alternative(each) for each in dict.fromkeys((host, "localhost", "127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=10))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files.write_atomically(key_file, [pem], mode=files.OWNER_ONLY)
    files.write_atomically(certificate, [signed.public_bytes(serialization.Encoding.PEM)])
    return certificate, key_file


def fingerprint(certificate: pathlib.Path) -> str:
    """Returns the SHA-256 of a certificate in hex, which devices may pin.

    Raises:
      ProgramError: If it cannot be read.
    """
    try:
        der = ssl.PEM_cert_to_DER_cert(certificate.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ProgramError(f"{certificate}: not a PEM certificate ({error}).") from None
    return hashlib.sha256(der).hexdigest()


def _alternative(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ProgramError(
            f"--host = {name!r} cannot be the name of a certificate: {error}"
        ) from None
