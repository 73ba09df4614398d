"""Slow, many, endless and broken requests do not block the owner and print nothing."""

import contextlib
import socket
import threading
import time

import pytest

from tff_keyboard_app.keyboard.server import server_connections
from tff_keyboard_app.keyboard.server.server_access import HOST
from tff_keyboard_app.keyboard.server.server_connections import Server

PATIENCE = 60  # seconds, for a busy machine
OWNER = b"GET /owner HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Application:
    """An application that admits requests for /owner, and answers /held when a test allows it."""

    def __init__(self):
        self.server = None
        self.admitted = threading.Event()
        self.may_answer = threading.Event()

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith("/owner"):
            self.server.admit(environ)
        if path == "/owner/held":
            self.admitted.set()
            assert self.may_answer.wait(PATIENCE)
        if path == "/owner/read":
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]


@pytest.fixture
def application():
    return Application()


@pytest.fixture
def port(application, monkeypatch):
    monkeypatch.setattr(server_connections, "MAX_STRANGERS", 3)
    server = application.server = Server(HOST, 0, application)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def connect(port):
    return contextlib.closing(socket.create_connection((HOST, port), PATIENCE))


def answer(connection):
    """Returns all bytes until the connection is closed."""
    actual = b""
    with contextlib.suppress(ConnectionError):
        while received := connection.recv(4096):
            actual += received
    return actual


def ask(port, request):
    with connect(port) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(request)
        return answer(connection)
    return b""


def test_oldest_connection_without_the_key_is_closed(port):
    with contextlib.ExitStack() as opened:
        silent = [opened.enter_context(connect(port)) for _ in range(3)]
        for connection in silent:
            connection.sendall(OWNER)  # half a request
        assert b" 200 " in ask(port, OWNER + b"\r\n")  # at once, beside them
        assert answer(silent[0]) == b""  # the oldest went
        silent[2].sendall(b"\r\n")
        assert b" 200 " in answer(silent[2])


def test_owner_can_connect_despite_many_strangers(port, application):
    """A request that showed the key is answered, however many connections follow."""
    with connect(port) as owner, contextlib.ExitStack() as opened:
        owner.sendall(b"GET /owner/held HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert application.admitted.wait(PATIENCE)
        silent = [opened.enter_context(connect(port)) for _ in range(10)]
        for connection in silent[:7]:
            assert answer(connection) == b""
        application.may_answer.set()
        assert b" 200 " in answer(owner)


@pytest.mark.parametrize("start", [b"", b"G", OWNER], ids=["nothing", "a letter", "half a head"])
def test_slow_request_is_closed_in_time(port, monkeypatch, start):
    """Single bytes do not restart the time limit."""
    monkeypatch.setattr(server_connections, "REQUEST_SECONDS", 0.5)
    with connect(port) as connection:
        connection.sendall(start)
        closed = threading.Event()

        def drip():
            while not closed.wait(0.05):
                with contextlib.suppress(OSError):
                    connection.sendall(b"X-a: b\r\n" if start == OWNER else b"G")

        dripping = threading.Thread(target=drip)
        begin = time.monotonic()
        dripping.start()
        try:
            assert b" 200 " not in answer(connection)
        finally:
            closed.set()
            dripping.join()
        assert time.monotonic() - begin < PATIENCE


def test_a_body_that_never_ends_is_left(port, monkeypatch, capfd):
    monkeypatch.setattr(server_connections, "REQUEST_SECONDS", 0.5)
    head = b"POST /owner/read HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    assert b" 200 " not in ask(port, head + b"x" * 10)
    assert capfd.readouterr().err == ""


def test_unread_body_is_not_buffered(port, monkeypatch):
    """The body of a rejected request is not read into memory."""
    monkeypatch.setattr(server_connections, "MAX_BYTES", 1000)
    head = b"POST /owner HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10000000\r\n\r\n"
    sent = ask(port, head + b"x" * 500)
    assert b" 200 " in sent
    ask(port, head + b"x" * 10_000_000)
    assert b" 200 " in ask(port, OWNER + b"\r\n")


NONSENSE = [
    b"\0" * 100 + b"\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/x\r\n\r\n",
    b"GET /?token=secret two words HTTP/1.1\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X-a: b\r\n" * 200 + b"\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    b"GET /" + b"y" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /\r\n\r\n",
    b"\x1b[31mred\x1b[0m / HTTP/1.1\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\nabcdef",
    b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\nabcdef",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    b"",
]


@pytest.mark.parametrize("request_bytes", NONSENSE, ids=lambda data: repr(data[:20]))
def test_invalid_request_is_not_logged(port, monkeypatch, capfd, caplog, request_bytes):
    monkeypatch.setattr(server_connections, "REQUEST_SECONDS", 0.5)
    ask(port, request_bytes)
    assert b" 200 " in ask(port, OWNER + b"\r\n")
    assert capfd.readouterr().err == ""
    assert caplog.text == ""
