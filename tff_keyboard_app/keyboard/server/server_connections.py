"""Limits the connections of the keyboard page's server, and the time of each request.

A request must have arrived completely within `REQUEST_SECONDS`. At most `MAX_STRANGERS`
connections that have not shown the key are open; for one more, the oldest is closed. A client that
opens many silent connections therefore closes its own, and the owner can still connect. A
connection that has shown the key is never closed for another one.
"""

import contextlib
import http
import io
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from werkzeug import serving

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment

REQUEST_SECONDS = 20.0
MAX_STRANGERS = 32  # a browser opens six connections, and some in advance
MAX_BYTES = 5_000_000  # of a request including its header; further bytes are not read


class Server(serving.ThreadedWSGIServer):
    """A server with one thread for each connection, and one request for each connection.

    Its application may call `admit`.
    """

    def __init__(self, host: str, port: int, application: "WSGIApplication"):
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}  # the oldest first
        super().__init__(host, port, application, handler=_Handler)

    def admit(self, environ: "WSGIEnvironment") -> None:
        """Marks the connection of a request that showed the key."""
        self._forget(environ["werkzeug.socket"])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._strangers[request] = None
            if len(self._strangers) > MAX_STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                with contextlib.suppress(OSError):  # its thread has closed it meanwhile
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._strangers.pop(connection, None)


class _Handler(serving.WSGIRequestHandler):
    """Reads one request of a connection, within the server's limits."""

    timeout = REQUEST_SECONDS  # of each answer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

    def make_environ(self) -> "WSGIEnvironment":
        try:
            return super().make_environ()
        except ValueError:  # the address is not valid
            self.send_error(http.HTTPStatus.BAD_REQUEST)
            raise ConnectionAbortedError from None

    def log(self, *unused_arguments: Any) -> None:
        """Logs nothing: requests contain the token, and strangers could write to the terminal."""

    def log_request(self, *unused_arguments: Any) -> None:
        """Logs nothing, as `log`."""


class _Arriving(io.RawIOBase):
    """The bytes of a connection, until its time is up or its limit is reached."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._end = time.monotonic() + REQUEST_SECONDS
        self._bytes_left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        if not self._bytes_left:
            return 0
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(memoryview(buffer)[: self._bytes_left])
        self._connection.settimeout(REQUEST_SECONDS)
        self._bytes_left -= count
        return count
