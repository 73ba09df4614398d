"""How many connections the server of the keyboard page has, and how long each may take to ask.

A request must have arrived whole in `REQUEST_SECONDS`, however its bytes are spread over them. At
most `MOST_STRANGERS` connections are open that have not shown the key: for one more the oldest is
closed. So whoever opens many and says nothing closes their own, and the owner comes in. A
connection that has shown the key is closed for nobody.
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
MOST_STRANGERS = 32  # a browser opens six and some ahead
MOST_BYTES = 5_000_000  # that are read of a request, head and all; more is not even thrown away


class Server(serving.ThreadedWSGIServer):
    """A thread a connection, a request a connection; its application may call `admit`."""

    def __init__(self, host: str, port: int, application: "WSGIApplication"):
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}  # the oldest first
        super().__init__(host, port, application, handler=_Handler)

    def admit(self, environ: "WSGIEnvironment") -> None:
        """The request showed the key."""
        self._forget(environ["werkzeug.socket"])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._strangers[request] = None
            if len(self._strangers) > MOST_STRANGERS:
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
    timeout = REQUEST_SECONDS  # of each answer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

    def make_environ(self) -> "WSGIEnvironment":
        try:
            return super().make_environ()
        except ValueError:  # the address is none
            self.send_error(http.HTTPStatus.BAD_REQUEST)
            raise ConnectionAbortedError from None

    def log(self, *unused_arguments: Any) -> None:
        """No line: requests name the token, and strangers would write on the terminal."""

    def log_request(self, *unused_arguments: Any) -> None:
        """As `log`."""


class _Arriving(io.RawIOBase):
    """What a connection sends, until its time is up or it has sent enough."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._end = time.monotonic() + REQUEST_SECONDS
        self._bytes_left = MOST_BYTES

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
