"""Serves the round server's application over HTTP, for a reverse proxy on the same machine.

The proxy does TLS, reads requests completely before it passes them on, and limits slow or greedy
clients. docs/fleet/README.md has a configuration.
"""

import threading
from typing import Any

from cheroot import wsgi

from tff_keyboard.storage.errors import ProgramError

THREADS = 64
LONGEST_HEADER = 16 * 1024  # bytes
BACKLOG = 512  # connections that wait to be accepted


class RoundServer:
    """Serves an application until `stop`.

    Args:
      app: The WSGI application.
      host: Address to listen on.
      port: Port to listen on; 0 for any free one.

    Attributes:
      port: The port on which it listens.

    Raises:
      ProgramError: If the address cannot be used.
    """

    def __init__(self, app: Any, host: str, port: int):
        self._server = _Server(
            (host, port),
            app,
            numthreads=THREADS,
            max=THREADS,
            request_queue_size=BACKLOG,
            server_name="tff-keyboard",
        )
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


class _Server(wsgi.Server):
    max_request_header_size = LONGEST_HEADER
    keep_alive_conn_limit = THREADS  # idle connections that stay open

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Logs nothing: the errors are made by clients, and messages may quote their data."""
