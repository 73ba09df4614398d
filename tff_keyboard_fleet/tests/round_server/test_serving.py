"""The server on a port."""

import concurrent.futures
import contextlib
import http.client
import socket
import time

import pytest

from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.round_server import serving
from tff_keyboard_fleet.round_server.serving import RoundServer


def app(environ, start_response):
    """Returns the length of the body."""
    answer = str(len(environ["wsgi.input"].read())).encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


@pytest.fixture
def server():
    actual = RoundServer(app, "127.0.0.1", 0)
    actual.start()
    yield actual
    actual.stop()


def connected(server):
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    return contextlib.closing(client)


def test_connection_is_kept_for_several_requests(server):
    with connected(server) as client:
        for size in (0, 3, 5_600_000):
            client.request("PUT", "/", b"x" * size)
            assert client.getresponse().read() == str(size).encode()
            assert client.sock is not None


def test_many_connections_of_a_proxy_at_once(server):
    def requests(_):
        with connected(server) as client:
            for _ in range(20):
                client.request("PUT", "/", b"x" * 1000)
                assert client.getresponse().read() == b"1000"

    with concurrent.futures.ThreadPoolExecutor(serving.THREADS) as pool:
        list(pool.map(requests, range(serving.THREADS)))


def test_long_headers_are_rejected(server):
    with connected(server) as client:
        client.request("GET", "/", headers={"Device-Key": "0" * 2 * serving.LONGEST_HEADER})
        assert client.getresponse().status == 413


def test_port_in_use_raises(server):
    with pytest.raises(ProgramError, match=r"Cannot serve on 127\.0\.0\.1"):
        RoundServer(app, "127.0.0.1", server.port)


def test_strangers_do_not_use_up_the_files_of_the_process(monkeypatch):
    """Silent connections are closed at a limit, and the server answers when they are gone."""
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 8)
    server = RoundServer(app, "127.0.0.1", 0)
    server.start()
    strangers = []
    try:
        for _ in range(30):
            strangers.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
        closed = []
        for stranger in strangers[-10:]:
            with contextlib.suppress(ConnectionResetError):
                closed.append(stranger.recv(1))
        assert set(closed) <= {b""}
        assert len(server._server.open_connections) <= 8
        for stranger in strangers:
            stranger.close()
        for _ in range(50):
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as client,
            ):
                client.request("GET", "/")
                assert client.getresponse().read() == b"0"
                break
            time.sleep(0.1)
        else:
            pytest.fail("no answer")
    finally:
        for stranger in strangers:
            stranger.close()
        server.stop()
