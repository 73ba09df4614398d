"""A small round server in memory, with faults on demand, for tests of the device."""

import contextlib
import http.server
import ssl
import threading
import time

from tff_keyboard_fleet.wire import keys, messages
from tff_keyboard_fleet.wire.messages import (
    Accepted,
    CheckIn,
    CheckinResponse,
    Loss,
    Refused,
    Rejection,
    TaskAssignment,
    Verdict,
)


class FakeServer:
    """Answers every device with a seat in round 1, until it is told otherwise.

    Attributes:
      plan: The `Plan`.
      blobs: SHA-256 -> bytes.
      task: What a check-in gets; None: `Rejection`.
      faults: Faults to come, in order, for requests whose path begins so: [(prefix, fault), ...];
        a fault is "drop", "cut", "busy", or a code of `REFUSALS`.
      seen: (method, path, bytes of the body) of every request.
      uploads: Bodies that were accepted.
      lost_answers: How many answers to uploads get lost behind their acceptance.
    """

    def __init__(self, plan, blobs):
        self.plan, self.blobs = plan, dict(blobs)
        self.blobs[plan.sha256] = plan.to_bytes()
        self.task = None
        self.faults, self.seen, self.uploads, self.check_ins = [], [], [], []
        self.changes = {}  # query -> bytes in place of a model
        self.verdicts, self.lost_answers = [], 0
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def use_tls(self, certificate, key):
        """Returns the new address."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        return self.url.replace("http:", "https:")

    def seat(self, model, *, round_num=1, seconds=60):
        self.task = TaskAssignment(
            round=round_num,
            plan=self.plan.sha256,
            model=model,
            assignment=f"seat {round_num}",
            upload_before_s=seconds,
        )

    def answer(self, method, path, headers, body):
        if method != "GET":
            keys.check_request(headers, method, path, body, time.time())
        path, _, query = path.partition("?")
        verb = path.removeprefix("/v1/")
        if verb == "plan":
            return self.plan.to_bytes()
        if verb.startswith(("plans/", "models/")):
            name = verb.partition("/")[2]
            if query in self.changes:
                return self.changes[query]
            if name not in self.blobs:
                raise Refused("not_found", "no such bytes")
            return self.blobs[name]
        if verb == "check-in":
            self.check_ins.append(messages.decode(CheckIn, body))
            rejection = None if self.task else Rejection(retry_after_s=90, reason="full")
            return messages.encode(CheckinResponse(task=self.task, rejection=rejection))
        if verb.endswith("/loss"):
            messages.decode(Loss, body)
            return messages.encode(self.verdicts.pop(0) if self.verdicts else Verdict(upload="yes"))
        messages.unpack_upload(body)
        if body not in self.uploads:
            self.uploads.append(body)
        place = self.uploads.index(body) + 1
        return messages.encode(Accepted(token=f"token {place}", accepted=place))

    def fault(self, path):
        if self.faults and path.startswith(self.faults[0][0]):
            return self.faults.pop(0)[1]
        return None


def _handler(server):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def _do(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.seen.append((self.command, self.path, len(body), self.headers.get("Range")))
            fault = server.fault(self.path)
            if fault == "drop":
                self.close_connection = True
                return
            try:
                if fault in messages.REFUSALS:
                    raise Refused(fault, "as the test wants", 7)
                data = server.answer(self.command, self.path, self.headers, body)
                status = 200
            except Refused as error:
                data = b'{"code": "%s", "message": "%s"}' % (
                    error.code.encode(), error.message.encode(),
                )  # fmt: skip
                status, fault = error.status, None
                self.send_response(status)
                self.send_header("Retry-After", "7")
            else:
                wanted = self.headers.get("Range")
                if wanted:
                    start = int(wanted.removeprefix("bytes=").partition("-")[0])
                    status = 416 if start >= len(data) else 206
                    self.send_response(status)
                    self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
                    data = data[start:]
                else:
                    self.send_response(200)
            if self.path.endswith("/upload") and status == 200 and server.lost_answers:
                server.lost_answers -= 1
                self.close_connection = True
                self._headers_buffer = []
                return
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if fault == "cut":
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(2)
                return
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _do

    return Handler
