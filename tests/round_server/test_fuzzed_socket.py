"""Any bytes on the port, over TLS: an answer of the protocol or none, and nothing grows."""

import contextlib
import gc
import json
import pathlib
import socket
import ssl
import threading
import time

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.fleet.devices import Device, key_of
from tff_keyboard.round_server import limits, serving
from tff_keyboard.round_server.app import Population, RoundApplication
from tff_keyboard.round_server.blobs import Blobs
from tff_keyboard.round_server.round_store import RoundStore
from tff_keyboard.round_server.rounds import Terms
from tff_keyboard.round_server.serving import RoundServer
from tff_keyboard.wire import keys, messages, weights

PARAMETERS = 5
MODEL = weights.to_bytes(np.arange(PARAMETERS))
DEVICE = key_of("fuzz")


class Target:
    """A server on a port, with a seat that fuzzed uploads may name."""

    def __init__(self, folder, certificate):
        self.folder = folder
        terms = Terms(goal=50, most=60, least=1, deadline_seconds=1e6, separation=2)
        self.store = RoundStore(folder, terms, time.time)
        blobs = Blobs(folder / "blobs")
        self.model, self.plan = blobs.keep(MODEL), blobs.keep(b"{}")
        for name in (self.model, self.plan):
            blobs.show(name)
        population = Population(
            name="keyboard", run=self.store.run_id, parameters=PARAMETERS, codec=messages.RAW
        )
        app = RoundApplication(self.store, blobs, population, key_of("server"), time.time)
        self.store.open_round(1, self.model, self.plan)
        self.seat = Device(app, "fuzz").check_in().task.assignment
        self.server = RoundServer(app, "127.0.0.1", 0, certificate)
        self.server.start()
        self.trust = ssl.create_default_context(cafile=str(certificate[0]))

    def close(self):
        self.server.stop()
        self.store.close()

    def send(self, data):
        """All that the server says to some bytes, after which no more come."""
        plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        with self.trust.wrap_socket(plain, server_hostname="127.0.0.1") as sock:
            found = b""
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                sock.sendall(data)
                socket.socket.shutdown(sock, socket.SHUT_WR)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while piece := sock.recv(65_536):
                    found += piece
            return found

    def size(self):
        """Threads, open files, files on disk."""
        return (
            threading.active_count(),
            sum(1 for _ in pathlib.Path("/proc/self/fd").iterdir()),
            sum(1 for _ in self.folder.rglob("*")),
        )


@pytest.fixture
def target(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(serving, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(limits, "REQUESTS_A_MINUTE", 10**9)
    monkeypatch.setattr(serving, "THREADS", 4)
    certificate = serving.open_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")
    with contextlib.closing(Target(tmp_path, certificate)) as target:
        yield target


METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "TRACE", "get", "", "\x00", "é"])
PATHS = st.sampled_from(
    ["/v1/check-in", "/v1/plan", "/v1/rounds/1/upload", "/v1/rounds/1/loss", "/", "*", "//x",
     "/v1/models/" + weights.sha256(MODEL), "/v1/models/" + "%2e" * 64, "/v1/plans/" + "0" * 64,
     "/v1/models/" + weights.sha256(MODEL) + "?from=" + weights.sha256(b"{}"), "/v1/plan?%ff=%00",
     "/v1/rounds/-1/upload", "/v1/rounds/" + "9" * 400 + "/upload", "http://x/v1/plan", "x" * 9000,
     "/v1/rounds/1/secure/keys"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)
LENGTHS = st.sampled_from(["0", "5", "99", "-1", "x", "1e3", "+3", "9" * 30, "", "1_0", "²"])
HEADER_LINES = st.lists(
    st.sampled_from(
        ["Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Expect: 100-continue",
         "Range: bytes=5-1", "Range: bytes=-0", "Range: bytes=0-0,2-2", "Connection: close",
         "Connection: upgrade", "Host: \x00", ": x", "no colon", " folded", "X: " + "x" * 20_000,
         "If-None-Match: \"", "If-Modified-Since: x", "Content-Type: multipart/form-data",
         "Device-Key: zz", "Device-Time: 1e400", "Device-Signature: é", "Content-Encoding: gzip",
         "If-Range: W/", "Cookie: =", "X-Forwarded-For: \t"]
    )
    | st.builds("Content-Length: {}".format, LENGTHS),
    max_size=4,
)  # fmt: skip
VERSIONS = st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "HTTP/x", ""])
CHUNKED = st.lists(
    st.tuples(
        st.sampled_from(["5", "0", "-5", "fffffffff", "x", "", "5;a=b"]), st.binary(max_size=9)
    )
).map(lambda chunks: b"".join(size.encode() + b"\r\n" + data + b"\r\n" for size, data in chunks))


@st.composite
def raw_requests(draw):
    """A request line, headers and a body that need not belong together; or no request at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=400))
    line = f"{draw(METHODS)} {draw(PATHS)} {draw(VERSIONS)}"
    head = "\r\n".join([line, "Host: x", *draw(HEADER_LINES)]).encode("utf-8")
    data = head + b"\r\n\r\n" + draw(st.binary(max_size=200) | CHUNKED)
    return data[: draw(st.integers(1, len(data)))] if draw(st.booleans()) else data


@st.composite
def signed_requests(draw, seat, plan):
    """A request of a device whose body is not what it should be, in one or two places."""
    is_upload = draw(st.booleans())
    if is_upload:
        fields = {"assignment": seat, "weight": 1.0, "loss": 1.0, "codec": messages.RAW,
                  "shape": [PARAMETERS]}  # fmt: skip
    else:
        fields = {"protocol": 1, "population": "keyboard", "plan": plan, "token": None}
    for name in draw(st.sets(st.sampled_from(sorted(fields)), max_size=2)):
        fields[name] = draw(JSON)
    content = draw(st.just(fields) | JSON)
    body = json.dumps(content).encode()
    if is_upload:
        length = draw(st.just(len(body)) | st.integers(0, 2**32 - 1))
        payload = draw(st.binary(max_size=40) | st.just(weights.to_bytes(np.ones(PARAMETERS))))
        body = length.to_bytes(4, "big") + body + payload
    method = "PUT" if is_upload else "POST"
    path = draw(
        st.sampled_from(["/v1/rounds/1/upload", "/v1/rounds/1/loss", "/v1/rounds/2/upload"])
    )
    path = path if is_upload else "/v1/check-in"
    headers = keys.sign_request(DEVICE, method, path, body) | {"Content-Length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answers_are_of_the_protocol(target, number):
    """Sends so many; that nothing grew is seen behind the first few, which warm up."""

    @hypothesis.settings(
        max_examples=number, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(raw_requests() | signed_requests(target.seat, target.plan))
    def send(data):
        found = target.send(data)
        if not found:
            return  # shut
        status = int(found.split(b" ", 2)[1])
        assert status < 500 or (status == 503 and b'"busy"' in found), found
        assert b"Traceback" not in found

    send()


def rest(target):
    """The size once connections are gone."""
    for _ in range(50):
        gc.collect()
        time.sleep(0.1)
        if not target.server._server.busy:
            break
    time.sleep(1.5)  # kept connections end
    return target.size()


@pytest.mark.parametrize("number", [25, pytest.param(1500, marks=pytest.mark.slow)])
def test_whatever_comes_has_an_answer_and_nothing_grows(target, number, capfd):
    assert target.send(b"GET /v1/plan HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 200")
    before = rest(target)
    answers_are_of_the_protocol(target, number)
    memory = resident_mb()
    answers_are_of_the_protocol(target, number)
    assert resident_mb() < memory + 10
    threads, opened, kept = rest(target)
    assert (threads, kept) == (before[0], before[2])
    assert opened <= before[1]
    assert target.send(b"GET /v1/plan HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 200")
    said = capfd.readouterr()
    assert "Traceback" not in said.err
    assert "round server:" not in said.err  # a bug, told as "busy"


def resident_mb():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024
