"""Any bytes give an answer of the protocol or a closed connection, and leak nothing."""

import collections
import contextlib
import json
import os
import pathlib
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import DEEP_JSON
from tests.support.examples import examples
from tff_keyboard_fleet.round_server.serving import RoundServer
from tff_keyboard_fleet.tests.round_server.test_app import MODEL, World
from tff_keyboard_fleet.tests.support.devices import key_of
from tff_keyboard_fleet.wire import keys, messages, weights

PATHS = st.sampled_from(
    [
        *("/v1/plan", "/v1/check-in", "/v1/rounds/1/upload", "/v1/rounds/1/loss", "/", "*"),
        *(f"/v1/models/{weights.sha256(MODEL)}", "/v1/models/%00", "/v1/plans/" + "0" * 64),
        *("//", "/v1/rounds/-1/upload", "/v1/check-in?a=%ff", "/" + "a" * 20_000),
    ]
)
METHODS = st.sampled_from(
    ["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "PRI"]
)
VERBS = st.sampled_from(
    [
        *(("POST", "/v1/check-in"), ("POST", "/v1/rounds/1/loss"), ("GET", "/v1/plan")),
        *(("PUT", "/v1/rounds/1/upload"), ("GET", f"/v1/models/{weights.sha256(MODEL)}")),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
FIELDS = ("protocol", "population", "plan", "token", "assignment", "weight", "loss", "codec")
MESSAGES = JSON | st.dictionaries(st.sampled_from([*FIELDS, "shape"]), JSON)
BODIES = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([data[: messages.LONGEST_JSON] for data in DEEP_JSON.values()]),
    MESSAGES.map(lambda found: json.dumps(found).encode()),
    st.builds(
        lambda head, rest, off: (len(head) + off).to_bytes(4, "big") + head + rest,
        MESSAGES.map(lambda found: json.dumps(found).encode()),
        st.binary(max_size=40),
        st.sampled_from([0, 0, 1, 2**31]),
    ),
)
LINES = st.sampled_from(
    [
        *(b"Content-Length: -1", b"Content-Length: x", b"Content-Length: 99999999999999"),
        *(b"Content-Length: 3\r\nContent-Length: 4", b"Transfer-Encoding: chunked", b": "),
        *(b"Transfer-Encoding: gzip, chunked", b"Range: bytes=-0", b"Range: bytes=9-1,2-"),
        *(b"Expect: 100-continue", b"X: " + b"x" * 20_000, b" folded", b"Host", b"\xff\xfe: \xff"),
        *(b"Device-Time: " + b"9" * 5000, b"If-None-Match: " + b'"', b"If-Range: x"),
    ]
)


@st.composite
def requests(draw):
    """Generates the bytes of requests, most of them signed, some of them cut."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    method, path = draw(VERBS if draw(st.integers(0, 2)) else st.tuples(METHODS, PATHS))
    body = draw(BODIES)
    lines = [f"{method} {path} {draw(st.sampled_from(['HTTP/1.1', 'HTTP/1.0', 'X']))}".encode()]
    lines += [b"Host: x", b"Connection: close"]
    if draw(st.integers(0, 3)):
        signed = keys.sign_request(key_of(draw(st.integers(0, 99))), method, path, body)
        lines += [f"{name}: {value}".encode() for name, value in signed.items()]
    lines += draw(st.lists(LINES, max_size=2))
    if not any(line.startswith((b"Content-L", b"Transfer")) for line in lines):
        lines.append(b"Content-Length: %d" % len(body))
    if b"Transfer-Encoding: chunked" in lines:
        size = draw(st.sampled_from([b"%x" % len(body), b"-1", b"ffffffffff", b"x", b"%x;a" % 2]))
        body = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
    whole = b"\r\n".join(lines) + b"\r\n\r\n" + body
    return whole if draw(st.integers(0, 3)) else whole[: draw(st.integers(0, len(whole)))]


def asked(line):
    return line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


KNOWN = {
    200: asked(b"GET /v1/plan"),
    400: b"\0\r\n\r\n",
    401: asked(b"POST /v1/check-in"),
    404: asked(b"GET /"),
    405: asked(b"DELETE /v1/plan"),
}


class Served(World):
    """A server on a port, its answers, and its resources."""

    def __init__(self, folder):
        super().__init__(folder)
        self.folder, self.statuses = folder, collections.Counter()
        self.server = RoundServer(self.app, "127.0.0.1", 0)
        self.server.start()

    def clock(self):
        return time.time()

    def answer(self, sent):
        """Returns the answer to some bytes, as far as it arrives soon."""
        actual = b""
        with contextlib.suppress(OSError):
            address = ("127.0.0.1", self.server.port)
            with socket.create_connection(address, timeout=20) as client:
                client.sendall(sent)
                client.settimeout(0.5)  # where bytes are missing, none comes
                while piece := client.recv(65536):
                    actual += piece
        return actual

    def check(self, sent):
        actual = self.answer(sent)
        if actual:
            status = int(actual.split(None, 2)[1])
            self.statuses[status] += 1
            of_cheroot = (501, 505)  # unknown encoding or version of HTTP
            assert status < 500 or status in of_cheroot or b'"code":"busy"' in actual, actual
            assert b"Traceback" not in actual

    def held(self):
        """Returns threads, open files, files on disk, and MB of memory."""
        resident = pathlib.Path("/proc/self/statm").read_text().split()[1]
        return (
            threading.active_count(),
            len(list(pathlib.Path("/proc/self/fd").iterdir())),
            sum(1 for path in self.folder.rglob("*") if path.is_file()),
            int(resident) * os.sysconf("SC_PAGE_SIZE") / 1e6,
        )


@pytest.fixture
def served(tmp_path):
    made = Served(tmp_path)
    made.open_round(1)
    yield made
    made.server.stop()
    made.store.close()


def hold(served, capfd, number):
    """Runs the examples, and checks that they leak no resources."""

    @examples(number)
    @given(sent=requests())
    def any_bytes(sent):
        served.check(sent)

    for sent in KNOWN.values():
        served.check(sent)
    assert served.statuses == dict.fromkeys(KNOWN, 1)
    before = served.held()
    any_bytes()
    until = time.monotonic() + 30  # connections that were cut are closed by their time
    while served.held()[1] > before[1] + 2 and time.monotonic() < until:
        time.sleep(0.2)
    threads, opened, files, resident = served.held()
    assert threads <= before[0]
    assert opened <= before[1] + 2
    assert files <= before[2] + 2  # the log of SQLite
    assert resident <= before[3] + 200  # clients, with bodies of megabytes, are in this process
    assert sum(served.statuses.values()) >= number // 20
    assert capfd.readouterr().err == ""


def test_some_bytes(served, capfd):
    hold(served, capfd, 50)


@pytest.mark.slow
def test_any_bytes(served, capfd):
    hold(served, capfd, 300)
