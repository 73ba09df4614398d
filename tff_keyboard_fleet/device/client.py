"""A client of a round server, over HTTPS with the standard library.

If the connection breaks or the server is busy, a request is repeated after waits that double; a
download continues where it stopped. A rejected request raises `Refused` and is not repeated.
"""

import contextlib
import http.client
import os
import pathlib
import random
import re
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard.storage import files, json_text
from tff_keyboard.storage.errors import ProgramError, UsageError, printable
from tff_keyboard_fleet.wire import keys, messages
from tff_keyboard_fleet.wire.messages import (
    Accepted,
    CheckIn,
    CheckinResponse,
    Loss,
    Refused,
    Verdict,
)

if TYPE_CHECKING:
    from tff_keyboard_fleet.wire import secure_steps

LARGEST_DOWNLOAD = 64 * 2**20  # bytes
_TIMEOUT_SECONDS = 60.0  # of one read or write
_LONGEST_SECONDS = 600.0  # of one request and its answer; a download continues in the next one
_PATIENCE_SECONDS = 60.0  # longest wait between tries
_PIECE = 2**16
_SECONDS = re.compile("[0-9]{1,9}")  # in `Retry-After`


class ServerUnavailable(ProgramError):
    """The server could not be reached, or stayed busy. A later attempt loses nothing.

    Attributes:
      retry_after_s: Seconds to wait, if the server named them.
    """

    def __init__(self, message: str, retry_after_s: float | None = None):
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RoundClient:
    """A connection of one device to one server. Not thread-safe.

    Args:
      url: `https://HOST:PORT`. `http` is allowed on this machine only.
      key: Signs all requests that are not mere downloads.
      ca: Certificates to trust, PEM; by default the system's certificates.
      attempts: Number of tries of a request.
      sleep: Waits between the tries.

    Raises:
      UsageError: If the URL or the certificates cannot be used.
    """

    def __init__(
        self,
        url: str,
        key: Ed25519PrivateKey,
        *,
        ca: pathlib.Path | None = None,
        attempts: int = 6,
        sleep: Callable[[float], None] = time.sleep,
    ):
        parts = urllib.parse.urlsplit(url)
        is_plain = parts.scheme == "http" and parts.hostname in messages.LOOPBACK
        if not parts.hostname or not (parts.scheme == "https" or is_plain):
            raise UsageError(f"--server must be https://HOST:PORT, got {url!r}.")
        self._url = url
        self._key = key
        self._attempts = attempts
        self._sleep = sleep
        try:
            host, port = parts.hostname, parts.port
            context = None if is_plain else ssl.create_default_context(cafile=ca)
        except (OSError, ValueError) as error:
            raise UsageError(f"--server or --ca cannot be used ({error}).") from None
        self._connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=context)
            if context
            else http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        )

        self._socket: socket.socket | None = None  # of the request

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def newest_plan(self) -> bytes:
        """Returns the plan whose conditions the device must check before the next check-in."""
        return self._ask("GET", "/v1/plan")

    def check_in(self, message: CheckIn) -> CheckinResponse:
        """Offers to take part."""
        return messages.decode(
            CheckinResponse, self._ask("POST", "/v1/check-in", messages.encode(message))
        )

    def loss(self, round_num: int, message: Loss) -> Verdict:
        """Sends the loss, and returns whether the server wants the upload."""
        path = f"/v1/rounds/{round_num}/loss"
        return messages.decode(Verdict, self._ask("POST", path, messages.encode(message)))

    def secure(
        self, round_num: int, step: str, message: "secure_steps.Step"
    ) -> "secure_steps.Next":
        """Takes a step of a secure sum. The same message again has the same answer."""
        from tff_keyboard_fleet.wire import secure_steps  # NumPy

        path = f"/v1/rounds/{round_num}/secure/{step}"
        data = self._ask("POST", path, messages.encode(message))
        return messages.decode(secure_steps.Next, data)

    def upload(self, round_num: int, body: bytes) -> Accepted:
        """Sends an upload. The same bytes may be sent again and have the same answer."""
        path = f"/v1/rounds/{round_num}/upload"
        return messages.decode(Accepted, self._ask("PUT", path, body))

    def download(self, path: str, part: pathlib.Path) -> None:
        """Fetches the bytes of a path into a file.

        Bytes that the file already has are not sent again.

        The caller checks the hash.
        """

        def receive() -> None:
            """Appends the bytes that `part` lacks, or writes all if the server sends all."""
            offset = part.stat().st_size if part.exists() else 0
            headers = {"Range": f"bytes={offset}-"} if offset else {}
            answer = self._send("GET", path, b"", headers)
            if answer.status == 416:  # the file already has all bytes
                answer.read()
                return
            if answer.status not in (200, 206):
                raise _refusal(answer)
            continues = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(
                f"bytes {offset}-"
            )
            flags = (
                os.O_WRONLY
                | os.O_CREAT
                | os.O_NOFOLLOW
                | (os.O_APPEND if continues else os.O_TRUNC)
            )
            with open(os.open(part, flags, files.OWNER_ONLY), "ab") as file:  # noqa: PTH123
                while piece := answer.read(_PIECE):
                    file.write(piece)
                    if file.tell() > LARGEST_DOWNLOAD:
                        raise Refused("too_large", "the download is too large")
            if answer.length:  # http.client does not report a cut body
                raise ConnectionError("the body is incomplete")

        self._again(receive)

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Sends a signed request, again if the connection breaks. Returns the answer's content."""

        def once() -> bytes:
            signed = keys.sign_request(self._key, method, path, body) if body else {}
            answer = self._send(method, path, body, signed)
            if answer.status != 200:
                raise _refusal(answer)
            content = answer.read(messages.LONGEST_JSON + 1)
            if answer.length:
                self.close()  # longer than any valid answer: `decode` rejects it
            return content

        content: bytes = self._again(once)
        return content

    def _send(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """Sends one request, and returns the answer, whose body is still to be read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self._connection.sock is None:
                self._connection.connect()
            self._socket = self._connection.sock
            self._connection.request(method, path, body or None, dict(headers))
        # A server that rejects a body before its end has sent an answer, too.
        return self._connection.getresponse()

    @contextlib.contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Ends a request that takes too long, also if the server sends a byte now and then."""

        def end() -> None:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

        self._socket = None
        timer = threading.Timer(_LONGEST_SECONDS, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _again(self, once: Callable[[], Any]) -> Any:
        """Calls `once` up to `attempts` times, until the server answers, and returns its result."""
        why, after = "", 0.0
        for attempt in range(self._attempts):
            if attempt:
                self._sleep(max(after, min(2.0**attempt / 4, 30.0)) * random.uniform(1.0, 1.5))
            try:
                with self._time_limit():
                    return once()
            except Refused as error:
                if error.code != "busy":
                    raise
                why, after = error.message, error.retry_after_s or 0.0
            except ssl.SSLCertVerificationError as error:
                raise ProgramError(
                    f"{self._url}: its certificate is not trusted ({error.verify_message}). "
                    "Pass --ca=FILE, the server's certificate."
                ) from None
            except (OSError, http.client.HTTPException) as error:
                # The error quotes an answer that is not HTTP.
                why, after = printable(str(error)) or type(error).__name__, 0.0
            self.close()
            if after > _PATIENCE_SECONDS:
                break
        raise ServerUnavailable(f"{self._url}: no answer ({why}). Try again later.", after or None)


def _refusal(answer: http.client.HTTPResponse) -> Exception:
    """Returns the error for an answer with another status than expected."""
    content: Any = None
    with contextlib.suppress(json_text.InvalidJsonError):
        content = json_text.parse(answer.read(messages.LONGEST_JSON))
    retry_after = answer.headers.get("Retry-After", "")
    after = int(retry_after) if _SECONDS.fullmatch(retry_after) else None
    code = content.get("code") if isinstance(content, dict) else None
    if code in messages.REFUSALS:
        return Refused(code, printable(str(content.get("message", ""))), after)
    if answer.status in (502, 503, 504):  # sent by a proxy
        return Refused("busy", f"HTTP {answer.status}", after)
    return ProgramError(f"The server's answer does not follow the protocol (HTTP {answer.status}).")
