"""A device with a hostile server: no traceback, and no control character on the terminal."""

import contextlib
import socket
import socketserver
import threading
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import DEEP_JSON, ESCAPES, damaged
from tests.support.examples import examples
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.device import client as client_lib
from tff_keyboard_fleet.device.client import ServerUnavailable
from tff_keyboard_fleet.tests.device.test_device import Phone, make_plan
from tff_keyboard_fleet.wire import messages

PLAN = make_plan().to_bytes()
REFUSAL = b'{"code": "late", "message": "too late"}'


class HostileServer:
    """Answers every connection with the same bytes."""

    def __init__(self):
        self.answer = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection:
                try:
                    connection.settimeout(5)
                    connection.recv(65536)
                    connection.sendall(self.answer)
                except OSError:
                    pass

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture(scope="module")
def server():
    server = HostileServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def phone(tmp_path_factory, server):
    return Phone(tmp_path_factory.mktemp("phone") / "device", server)


@pytest.fixture(autouse=True)
def _again_at_once(phone, monkeypatch):
    phone.said.clear()
    phone.now += 1e6


def response(body, status=b"200 OK", *lines):
    head = [b"HTTP/1.1 " + status, *lines, b"Content-Length: %d" % len(body), b"Connection: close"]
    return b"\r\n".join([*head, b"", body])


def lines_of(phone):
    """Returns all lines of one attempt that `tff-keyboard device` would print."""
    phone.said.clear()
    phone.now += 1e6  # a waiting time is over
    try:
        phone.attempt()
    except ProgramError as error:
        phone.said.append(str(error))
    return phone.said


@pytest.mark.parametrize("name", DEEP_JSON)
@pytest.mark.parametrize("status", [b"403 Forbidden", b"503 Busy", b"200 OK"])
def test_deep_json_is_one_line(name, status, phone, server):
    server.answer = response(DEEP_JSON[name][:60_000], status)
    (line,) = lines_of(phone)
    assert line.isprintable()
    assert len(line) < 300


def test_deep_refusal_is_named(phone, server):
    server.answer = response(b"[" * 60_000, b"403 Forbidden")
    with pytest.raises(ProgramError, match=r"does not follow the protocol \(HTTP 403\)"):
        phone.attempt()


def test_refusal_is_printed_without_escape_codes(phone, server):
    body = messages.encode({"code": "late", "message": ESCAPES})
    server.answer = response(body, b"410 Gone")
    assert lines_of(phone) == ["not taken: late: [31mX]0;t2J error: fake"]


def test_long_refusal_is_cut(phone, server):
    body = messages.encode({"code": "late", "message": "x" * 9999})
    server.answer = response(body, b"410 Gone")
    assert lines_of(phone) == ["not taken: late: " + "x" * 200]


@pytest.mark.parametrize(
    "answer",
    [
        b"\x1b[31mred\x1b]0;title\x07\r\n\r\n",
        b"HTTP/1.1 \x1b[31m200\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        response(REFUSAL, b"503 Busy", b"Retry-After: " + b"9" * 5000),
        response(REFUSAL, b"410 Gone", b"Retry-After: " + "٣".encode()),
        response(b"", b"200 OK", b"X: " + b"x" * 70_000),
        response(PLAN.replace(b'"english"', b'"\\u001b[31m"')),
        response(PLAN.replace(b'"codec"', b'"\\u001b[31mcodec"')),
        b"",
    ],
    ids=[
        *("status-line", "status", "version", "long-wait", "digits", "long-header"),
        *("population", "key", "nothing"),
    ],
)
def test_bytes_of_a_server_do_not_reach_the_terminal(answer, phone, server):
    server.answer = answer
    for line in lines_of(phone):
        assert line.isprintable()
        assert len(line) < 300


@pytest.mark.parametrize("sound", [response(PLAN), response(REFUSAL, b"410 Gone")])
def test_any_answer(sound, phone, server):
    @examples(150)
    @given(st.binary(max_size=200) | damaged(sound))
    def any_answer(answer):
        server.answer = answer
        for line in lines_of(phone):
            assert line.isprintable()

    any_answer()


def test_errors_of_the_network_are_cut(phone, server):
    server.answer = b"\x1b" * 60_000 + b"\r\n\r\n"
    with pytest.raises(ServerUnavailable) as caught:
        phone.attempt()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: "])
def test_a_server_that_never_ends_its_answer(piece, monkeypatch):
    """It sends enough that no single read times out."""
    monkeypatch.setattr(client_lib, "_LONGEST_SECONDS", 0.3)

    class Endless(socketserver.BaseRequestHandler):
        def handle(self):
            data = piece
            with contextlib.suppress(OSError):
                while True:
                    self.request.sendall(data)
                    data = piece if b"100" in piece else b"x"
                    time.sleep(0.02)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Endless) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        key = ed25519.Ed25519PrivateKey.generate()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        client = client_lib.RoundClient(url, key, attempts=2, sleep=lambda seconds: None)
        begin = time.monotonic()
        with contextlib.suppress(ServerUnavailable):  # a cut header may look complete
            assert client.newest_plan() == b""
        assert time.monotonic() - begin < 10
        client.close()
        server.shutdown()
        thread.join()
