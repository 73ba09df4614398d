"""Serves the round server's application over HTTP, for a reverse proxy on the same machine.

The proxy does TLS, reads requests completely before it passes them on, and limits slow or greedy
clients. docs/fleet/README.md has a configuration.

A client without a signature cannot make the server use much memory. The header of a request has at
most `LONGEST_HEADER` bytes. The body must have a Content-Length of at most `max_body_bytes`, so
chunked bodies are refused when the header has arrived. A body that the application does not want
is read in pieces and dropped. Connections above `MAX_CONNECTIONS` are closed at once, because each
needs a file of the process, and the training needs files, too.
"""

import contextlib
import http
import resource
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cheroot import server as cheroot_server
from cheroot import wsgi

from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.wire import messages
from tff_keyboard_fleet.wire.messages import Refused

if TYPE_CHECKING:
    from tff_keyboard_fleet.round_server.app import RoundApplication

THREADS = 64
MAX_CONNECTIONS = (
    256  # open at a time; fewer if the process may have fewer than twice as many files
)
LONGEST_HEADER = 16 * 1024  # bytes
LONGEST_BODY = 64 * 2**20  # bytes; the proxy's limit in docs/fleet/README.md
BACKLOG = 512  # connections that wait to be accepted
_PIECE_BYTES = 64 * 1024
_LONGEST_LENGTH = 18  # digits of a Content-Length


@contextlib.contextmanager
def served(app: "RoundApplication", host: str, port: int) -> Iterator[None]:
    """Serves the rounds of an application, and prints the address."""
    server = RoundServer(app, host, port, max_body_bytes=app.max_body_bytes)
    server.start()
    try:
        print(f"Rounds: http://{host}:{server.port}", flush=True)
        yield
    finally:
        server.stop()


class RoundServer:
    """Serves an application until `stop`.

    Args:
      app: The WSGI application.
      host: Address to listen on.
      port: Port to listen on; 0 for any free one.
      max_body_bytes: Longest body of a request. Longer bodies are refused before they are read.

    Attributes:
      port: The port on which it listens.

    Raises:
      ProgramError: If the address cannot be used.
    """

    def __init__(self, app: Any, host: str, port: int, *, max_body_bytes: int = LONGEST_BODY):
        self._server = _Server(
            (host, port),
            app,
            numthreads=THREADS,
            max=THREADS,
            request_queue_size=BACKLOG,
            server_name="tff-keyboard",
        )
        self._server.max_request_body_size = max_body_bytes
        try:
            self._server.prepare()
        except (OSError, OverflowError) as error:
            raise ProgramError(
                f"Cannot serve on {host}:{port}: {error}. Choose another --host or --port."
            ) from None
        self.port: int = self._server.bind_addr[1]
        self._thread = threading.Thread(target=self._server.serve, name="rounds", daemon=True)

    def start(self) -> None:
        """Starts to answer, in its own threads."""
        self._thread.start()

    def stop(self) -> None:
        """Stops after the current requests are answered."""
        self._server.stop()
        self._thread.join()


class _Request(cheroot_server.HTTPRequest):
    """A request whose body has a known and limited length."""

    def read_request_line(self) -> bool:
        try:
            ready: bool = super().read_request_line()  # type: ignore[no-untyped-call]
        except ValueError:  # of `urlsplit`, such as for "http://[::1"
            self.simple_response("400 Bad Request", "Malformed Request-URI")
            return False
        return ready

    def read_request_headers(self) -> bool:
        self.header_reader = self._read_headers
        try:
            ready: bool = super().read_request_headers()  # type: ignore[no-untyped-call]
        except Refused as refused:
            self._refuse(refused)
            return False
        return ready

    def _read_headers(self, file: Any, headers: dict[bytes, bytes]) -> None:
        """Reads the header, and checks the length of the body before the server asks for it.

        Raises:
          Refused: "length_required" or "too_large".
          ValueError: If the header is not valid HTTP. The server answers with the message.
        """
        cheroot_server.HeaderReader()(file, headers)
        if b"Transfer-Encoding" in headers:
            raise Refused("length_required", "send Content-Length, not Transfer-Encoding")
        length = headers.get(b"Content-Length", b"0")
        if not length.isdigit() or len(length) > _LONGEST_LENGTH:
            raise ValueError("Malformed Content-Length Header.")
        if int(length) > self.server.max_request_body_size:
            raise Refused("too_large", "the body is too long")

    def _refuse(self, refused: Refused) -> None:
        """Answers before the body is read, and closes the connection."""
        self.close_connection = True
        content = messages.encode({"code": refused.code, "message": refused.message})
        lines = (
            f"{self.server.protocol} {refused.status} {http.HTTPStatus(refused.status).phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            "Connection: close",
        )
        self.conn.wfile.write("\r\n".join([*lines, "\r\n"]).encode("ascii") + content)

    def send_headers(self) -> None:
        if not self.close_connection:  # otherwise the rest of the body is never read
            while getattr(self.rfile, "remaining", 0) > 0 and self.rfile.read(_PIECE_BYTES):
                pass
        super().send_headers()


class _Connection(cheroot_server.HTTPConnection):
    """A connection that the server counts while it is open."""

    RequestHandlerClass = _Request

    def __init__(self, server: "_Server", *arguments: Any):
        super().__init__(server, *arguments)
        server.open_connections.add(self)

    def close(self) -> None:
        self.server.open_connections.discard(self)
        super().close()


class _Server(wsgi.Server):
    """A server with a bound on the number of open connections."""

    ConnectionClass = _Connection

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.open_connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
        most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        unlimited = most_files == resource.RLIM_INFINITY
        self.max_connections = (
            MAX_CONNECTIONS if unlimited else min(MAX_CONNECTIONS, most_files // 2)
        )

    def process_conn(self, conn: _Connection) -> None:
        """Gives a connection to a thread. Closes a new one if there are too many."""
        if conn.requests_seen == 0 and len(self.open_connections) > self.max_connections:
            conn.close()
            return
        super().process_conn(conn)

    max_request_header_size = LONGEST_HEADER
    keep_alive_conn_limit = THREADS  # idle connections that stay open

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Logs nothing: the errors are made by clients, and messages may quote their data."""
