"""The server on a port: TLS, limits, and clients that try to block its threads."""

import concurrent.futures
import contextlib
import hashlib
import http.client
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.round_server import serving
from tff_keyboard_fleet.round_server.serving import RoundServer


def app(environ, start_response):
    """Returns the length of the body."""
    body = environ["wsgi.input"].read()
    answer = f"{environ['wsgi.url_scheme']} {len(body)}".encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return serving.open_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@contextlib.contextmanager
def served(certificate):
    server = RoundServer(app, "127.0.0.1", 0, certificate)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def https(server, certificate):
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    return http.client.HTTPSConnection("127.0.0.1", server.port, context=trust, timeout=20)


def get(server, certificate, body=b""):
    client = https(server, certificate)
    with contextlib.closing(client):
        client.request("PUT", "/", body)
        return client.getresponse().read()


def test_tls_with_a_certificate_of_its_own(certificate):
    with served(certificate) as server:
        client = https(server, certificate)
        for size in (0, 3, 5_600_000):  # one connection
            client.request("PUT", "/", b"x" * size)
            assert client.getresponse().read() == f"https {size}".encode()
        assert client.sock.version() in ("TLSv1.2", "TLSv1.3")
        shown = hashlib.sha256(client.sock.getpeercert(binary_form=True)).hexdigest()
        assert shown == serving.fingerprint(certificate[0])
        client.close()
        untrusting = http.client.HTTPSConnection("localhost", server.port, timeout=20)
        with pytest.raises(ssl.SSLCertVerificationError):
            untrusting.connect()


def test_an_answer_is_one_record(certificate):
    with served(certificate) as server, contextlib.closing(https(server, certificate)) as client:
        client.connect()
        for _ in range(3):
            client.sock.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxxx")
            assert client.sock.recv(65_536).endswith(b"\r\n\r\nhttps 3")


def test_requests_of_one_record_are_all_answered(certificate):
    asked = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(certificate) as server, contextlib.closing(https(server, certificate)) as client:
        client.connect()
        client.sock.sendall(800 * asked)  # more than the server's buffer holds
        found = b""
        while found.count(b"https 0") < 800:
            more = client.sock.recv(65_536)
            assert more
            found += more


def test_expect_100_continue_is_answered(certificate):
    with served(certificate) as server, contextlib.closing(https(server, certificate)) as client:
        client.connect()
        client.sock.sendall(
            b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        assert client.sock.recv(1000).startswith(b"HTTP/1.1 100 Continue")
        client.sock.sendall(b"xxx")
        assert client.sock.recv(1000).endswith(b"https 3")


def test_kept_connections_share_a_thread(certificate, monkeypatch):
    monkeypatch.setattr(serving, "THREADS", 1)
    with served(certificate) as server, contextlib.ExitStack() as stack:
        clients = [https(server, certificate) for _ in range(3)]
        for client in clients:
            stack.callback(client.close)
        for _ in range(5):
            for client in clients:
                client.request("PUT", "/", b"xxx")
            for client in clients:
                assert client.getresponse().read() == b"https 3"


def test_a_certificate_is_made_once(certificate):
    folder = certificate[0].parent
    before = serving.fingerprint(certificate[0])
    assert serving.open_certificate(folder, "elsewhere") == certificate
    assert serving.fingerprint(certificate[0]) == before
    assert certificate[1].stat().st_mode & 0o777 == 0o600


def test_invalid_certificate_name_is_rejected(tmp_path):
    with pytest.raises(ProgramError, match=r"--host = .* cannot be the name of a certificate"):
        serving.open_certificate(tmp_path, "m\xfcnchen.example")


def test_silent_and_slow_clients_do_not_block_others(certificate, monkeypatch):
    monkeypatch.setattr(serving, "THREADS", 2)
    monkeypatch.setattr(serving, "HEADER_SECONDS", 3.0)
    with served(certificate) as server, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(8)]
        assert get(server, certificate) == b"https 0"  # who says nothing has no thread
        slow = https(server, certificate)
        stack.callback(slow.close)
        slow.connect()
        slow.sock.sendall(b"PUT / HTTP/1.1\r\nHost: ")
        silent[0].sendall(b"\x16")  # a handshake that does not go on
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(get, server, certificate)
            slow.sock.settimeout(20)
            assert slow.sock.recv(100) == b""  # shut
            assert waiting.result(20) == b"https 0"


def test_silent_connections_are_closed_when_file_descriptors_run_out(certificate, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 40)
    with served(certificate) as server, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(100)]
        for _ in range(5):
            assert get(server, certificate) == b"https 0"
        silent[0].settimeout(20)
        assert silent[0].recv(1) == b""  # the one that has been idle the longest


STARVED = """
import os, resource
from tff_keyboard_fleet.tests.round_server.test_serving import app
from tff_keyboard_fleet.round_server import serving

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
server = serving.RoundServer(app, "127.0.0.1", 0, None)
server.start()
taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(60)]
print(server.port, flush=True)
input()
server.stop()
"""


def test_server_survives_without_free_file_descriptors():
    command = [sys.executable, "-c", STARVED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            address = ("127.0.0.1", int(process.stdout.readline()))
            for _ in range(3):
                silent = [socket.create_connection(address) for _ in range(60)]
                client = http.client.HTTPConnection(*address, timeout=20)
                client.request("GET", "/")
                assert client.getresponse().read() == b"http 0"
                for one in [*silent, client]:
                    one.close()
            process.communicate("\n", timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0


def test_stalled_header_loses_its_thread_when_others_wait(certificate, monkeypatch):
    monkeypatch.setattr(serving, "THREADS", 2)
    monkeypatch.setattr(serving, "HURRIED_SECONDS", 0.2)
    monkeypatch.setattr(serving, "HEADER_SECONDS", 600.0)
    with served(certificate) as server, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", server.port)
        for one in [socket.create_connection(address) for _ in range(10)]:
            stack.enter_context(one)
            one.sendall(b"\x16")
        for _ in range(2):
            assert get(server, certificate) == b"https 0"


def test_hundred_slow_bodies_do_not_block_a_device(certificate, monkeypatch):
    monkeypatch.setattr(serving, "SHARED_SECONDS", 0.5)
    is_over = threading.Event()

    def trickle(open_ones):
        while not is_over.wait(0.2):
            for one in open_ones:
                with contextlib.suppress(OSError):
                    one.send(b"x")

    with served(certificate) as server, contextlib.ExitStack() as stack:
        slow = [https(server, certificate) for _ in range(100)]
        for one in slow:
            stack.callback(one.close)

        def begin(one):
            one.connect()
            one.sock.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")

        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            list(pool.map(begin, slow))
        thread = threading.Thread(target=trickle, args=([one.sock for one in slow],))
        thread.start()
        try:
            for _ in range(3):  # in vain for two minutes, but for the sharing
                assert get(server, certificate, b"x" * 100_000) == b"https 100000"
        finally:
            is_over.set()
            thread.join()


def test_slow_client_keeps_its_thread_when_no_other_waits(certificate, monkeypatch):
    monkeypatch.setattr(serving, "SHARED_SECONDS", 0.1)
    with served(certificate) as server:
        client = https(server, certificate)
        with contextlib.closing(client):
            client.connect()
            client.sock.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")
            time.sleep(1.5)  # three looks of the server
            client.sock.sendall(b"x")
            assert client.sock.recv(100).startswith(b"HTTP/1.1 200")


def test_long_headers_are_refused(certificate):
    with served(certificate) as server:
        client = https(server, certificate)
        with contextlib.closing(client):
            client.request("GET", "/", headers={"Device-Key": "0" * 2 * serving.LONGEST_HEADER})
            assert client.getresponse().status == 413


def test_plain_http_only_where_asked_for(certificate):
    with served(None) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        with contextlib.closing(client):
            client.request("GET", "/")
            assert client.getresponse().read() == b"http 0"
    with served(certificate) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        with contextlib.closing(client):
            client.request("GET", "/")
            with pytest.raises((http.client.HTTPException, OSError)):
                client.getresponse()
        assert get(server, certificate) == b"https 0"


def test_what_cannot_be_served_is_told(certificate, tmp_path):
    with served(certificate) as server, pytest.raises(ProgramError, match="Cannot serve"):
        RoundServer(app, "127.0.0.1", server.port, certificate)
    (tmp_path / "no.crt").write_text("nothing")
    with pytest.raises(ProgramError, match="Cannot serve"):
        RoundServer(app, "127.0.0.1", 0, (tmp_path / "no.crt", certificate[1]))
    with pytest.raises(ProgramError, match="not a PEM certificate"):
        serving.fingerprint(tmp_path / "no.crt")
