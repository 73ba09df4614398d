"""A client without a signature cannot fill the server's memory: raw sockets, measured."""

import contextlib
import json
import socket
import tracemalloc

import pytest

from tff_keyboard_fleet.round_server.serving import LONGEST_BODY, RoundServer
from tff_keyboard_fleet.tests.round_server.test_app import PARAMETERS, World
from tff_keyboard_fleet.wire import messages

PIECE = bytes(2**20)
SENT_PIECES = 64  # 64 MiB
MAX_GROWTH_BYTES = 4 * 2**20
UPLOAD, CHECK_IN = b"PUT /v1/rounds/1/upload HTTP/1.1", b"POST /v1/check-in HTTP/1.1"
CHUNKED = b"Transfer-Encoding: chunked"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    world.open_round(1)
    server = RoundServer(world.app, "127.0.0.1", 0, max_body_bytes=world.app.max_body_bytes)
    server.start()
    yield server
    server.stop()
    world.store.close()


def header(*lines):
    return b"\r\n".join([lines[0], b"Host: x", *lines[1:]]) + b"\r\n\r\n"


def exchange(server, start, pieces=()):
    """Sends bytes until the server closes the connection. Returns the answer and memory growth.

    The growth is the peak of the memory that Python allocates, in the threads of the server and in
    this one, in bytes.
    """
    answer = b""
    tracemalloc.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(start)
            # The answer may come before the end of the body, and is lost if the body is sent on.
            client.settimeout(1)
            with contextlib.suppress(TimeoutError):
                answer = client.recv(65536)
            client.settimeout(20)
            with contextlib.suppress(OSError):
                for piece in pieces:
                    client.sendall(piece)
                while more := client.recv(65536):
                    answer += more
        growth = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return answer, growth


def status_and_code(answer):
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(content)["code"]


def test_an_address_that_cannot_be_read_is_a_bad_request(server):
    answer, _ = exchange(server, header(b"GET http://[::1 HTTP/1.1"))
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "start",
    [
        header(UPLOAD, CHUNKED) + b"%x\r\n" % (SENT_PIECES * len(PIECE)),
        header(UPLOAD, CHUNKED),  # a chunk size without an end
        header(CHECK_IN, CHUNKED) + b"%x\r\n" % (SENT_PIECES * len(PIECE)),
        header(UPLOAD, b"Content-Length: 3", CHUNKED) + b"%x\r\n" % 2**29,
        header(UPLOAD, CHUNKED, b"Content-Length: 3") + b"%x\r\n" % 2**29,
        header(UPLOAD, b"transfer-encoding: gzip, chunked") + b"%x\r\n" % 2**29,
        header(CHECK_IN.replace(b"1.1", b"1.0"), CHUNKED) + b"%x\r\n" % 2**29,
        header(b"GET /v1/plan HTTP/1.1", CHUNKED) + b"%x\r\n" % 2**29,
        header(UPLOAD, CHUNKED, b"Expect: 100-continue"),
    ],
    ids=[
        *("chunk", "size-line", "check-in", "length-first", "length-last"),
        *("gzip", "http-1.0", "get", "expect"),
    ],
)
def test_chunked_body_is_refused_unread(server, start):
    answer, growth = exchange(server, start, [PIECE] * SENT_PIECES)
    assert status_and_code(answer) == (411, "length_required")
    assert growth < MAX_GROWTH_BYTES


@pytest.mark.parametrize("line", [UPLOAD, CHECK_IN, b"POST /elsewhere HTTP/1.1"])
@pytest.mark.parametrize("length", [SENT_PIECES * len(PIECE), 10**17])
def test_long_body_is_refused_unread(server, line, length):
    start = header(line, b"Content-Length: %d" % length)
    answer, growth = exchange(server, start, [PIECE] * SENT_PIECES)
    assert status_and_code(answer) == (413, "too_large")
    assert growth < MAX_GROWTH_BYTES


@pytest.mark.parametrize("length", [b"-1", b"+3", b"1_0", b"9" * 5000, b"x", b"3, 3"])
def test_malformed_length_is_refused(server, length):
    answer, growth = exchange(server, header(UPLOAD, b"Content-Length: " + length), [PIECE] * 8)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert growth < MAX_GROWTH_BYTES


def test_unwanted_body_is_dropped_in_pieces():
    def app(environ, start_response):
        start_response("404 Not Found", [("Content-Length", "0")])
        return []

    server = RoundServer(app, "127.0.0.1", 0)
    server.start()
    try:
        start = header(CHECK_IN, b"Content-Length: %d" % (32 * len(PIECE)))
        assert 32 * len(PIECE) < LONGEST_BODY
        with_next = [*[PIECE] * 32, header(CHECK_IN, b"Connection: close")]
        answer, growth = exchange(server, start, with_next)
    finally:
        server.stop()
    assert answer.count(b"HTTP/1.1 404 ") == 2  # the connection was kept
    assert growth < MAX_GROWTH_BYTES


@pytest.mark.parametrize(("extra", "status"), [(0, 401), (1, 413)], ids=["longest", "longer"])
def test_longest_body_is_that_of_an_upload(server, extra, status):
    length = 4 * PARAMETERS + messages.LONGEST_JSON + messages.LENGTH_BYTES + extra
    start = header(UPLOAD, b"Content-Length: %d" % length, b"Connection: close")
    answer, _ = exchange(server, start + bytes(length))
    assert status_and_code(answer)[0] == status
