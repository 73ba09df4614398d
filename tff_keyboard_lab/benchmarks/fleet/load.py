"""Load test of one round server: check-ins and uploads a second, p99, memory over many uploads.

    python -m tff_keyboard_lab.benchmarks.fleet.load --uploads=10000

Server and clients are processes on one machine, over HTTP on loopback, without the proxy. Every
device has its own key and takes part once. Nothing is trained: uploads are noise, and a round is
released as soon as its uploads were read. Both sides share the cores, so a server alone can take
more load. Its CPU time for each request does not depend on the load. Its threads share one
interpreter: it can use at most one second of CPU a second.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import socket
import tempfile
import threading
import time

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard_fleet.device.client import RoundClient, ServerUnavailable
from tff_keyboard_fleet.round_server.app import Population, RoundApplication
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.round_server.serving import RoundServer
from tff_keyboard_fleet.wire import keys, messages, weights
from tff_keyboard_fleet.wire.messages import CheckIn, CheckinResponse, Refused, UploadHeader

PARAMETERS = 350_000  # 1.4 MB of float32
GOAL = 100
PLAN = b'{"plan": "of a benchmark"}'
MESSAGE = CheckIn(protocol=1, population="load", plan=weights.sha256(PLAN), token=None)
MAX_A_SECOND = 1_500  # check-ins of each of two processes


def serve(folder: pathlib.Path, uploads: int, pipe) -> None:
    """Runs the server's process: rounds of `GOAL` uploads until there were enough."""
    round_settings = RoundSettings(
        goal=GOAL, max_seats=2 * GOAL, min_reports=GOAL, deadline_seconds=3600, separation=1
    )
    store = RoundStore(folder, round_settings, time.time)
    blobs = Blobs(folder / "blobs")
    model, plan = blobs.keep(weights.to_bytes(np.zeros(PARAMETERS))), blobs.keep(PLAN)
    for name in (model, plan):
        blobs.show(name)
    population = Population(
        name="load", run=store.run_id, parameters=PARAMETERS, codec=messages.RAW
    )
    app = RoundApplication(store, blobs, population, Ed25519PrivateKey.generate())
    server = RoundServer(app, "127.0.0.1", 0)
    server.start()
    pipe.send(server.port)
    memory, began = [], time.process_time()
    for number in range(1, uploads // GOAL + 1):
        store.open_round(number, model, plan)
        closed_round = store.wait_for_uploads(number)
        assert closed_round is not None
        read = sum(1 for _ in store.uploads(number, closed_round.attempt))
        assert read == GOAL
        store.release(number)
        memory.append(_resident_mb())
    store.open_round(number + 1, model, plan)  # for the check-ins
    pipe.send((memory, time.process_time() - began))
    while pipe.recv():
        pipe.send(time.process_time())
    server.stop()
    store.close()


def work(url: str, seconds: float, pipe) -> None:
    """Runs a process of clients that upload: four threads, each with one device after the other."""
    times: dict[str, list[float]] = {"check-in": [], "upload": []}
    failures: list[str] = []
    payload = weights.to_bytes(np.random.default_rng(os.getpid()).normal(size=PARAMETERS))

    def devices() -> None:
        client = RoundClient(url, Ed25519PrivateKey.generate())
        while time.monotonic() < until:
            client._key = Ed25519PrivateKey.generate()
            try:
                task = _timed(times["check-in"], client.check_in, MESSAGE).task
                if task is None:
                    time.sleep(0.05)
                    continue
                header = UploadHeader(
                    assignment=task.assignment, weight=1.0, loss=1.0, codec=messages.RAW,
                    shape=[PARAMETERS],
                )  # fmt: skip
                body = messages.pack_upload(header, payload)
                _timed(times["upload"], client.upload, task.round, body)
            except Refused as error:
                failures.append(error.code)
            except ServerUnavailable:
                return
        client.close()

    pipe.send("ready")
    pipe.recv()
    until = time.monotonic() + seconds
    _in_threads(devices)
    pipe.send((times, failures))


def crowd(url: str, is_kept: bool, seconds: float, pipe) -> None:
    """Runs a process of devices that only check in, on four connections or each on its own.

    Their requests are signed beforehand, because phones would not use the server's machine for
    that.
    """
    times: list[float] = []
    failures: list[str] = []
    body = messages.encode(MESSAGE)
    keys_of = (Ed25519PrivateKey.generate() for _ in range(int(MAX_A_SECOND * seconds)))
    requests = [_signed_check_in(key, body) for key in keys_of]
    host, port = url.removeprefix("http://").split(":")

    def connected() -> socket.socket:
        plain = socket.create_connection((host, int(port)), timeout=20)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain

    def devices() -> None:
        with contextlib.closing(connected()) as shared_connection:
            while requests and time.monotonic() < until:
                start = time.perf_counter()
                connection = shared_connection if is_kept else connected()
                connection.sendall(requests.pop())
                status = _status(connection)
                times.append(time.perf_counter() - start)
                if not is_kept:
                    connection.close()
                if status != b"200":
                    failures.append(status.decode())

    pipe.send("ready")
    pipe.recv()
    until = time.monotonic() + seconds
    _in_threads(devices)
    pipe.send(({"check-in": times, "upload": []}, failures))


def _signed_check_in(key: Ed25519PrivateKey, body: bytes) -> bytes:
    """Returns a signed check-in as the bytes of an HTTP request."""
    path = "/v1/check-in"
    headers = {"Host": "load", "Content-Length": str(len(body))}
    headers |= keys.sign_request(key, "POST", path, body)
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _status(connection: socket.socket) -> bytes:
    """Reads an answer and returns its status."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65_536)
    head, _, body = answer.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < size:
        body += connection.recv(65_536)
    return head.split(None, 2)[1]


def _in_threads(call) -> None:
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _timed(into: list[float], call, *arguments) -> CheckinResponse:
    start = time.perf_counter()
    answer = call(*arguments)
    into.append(time.perf_counter() - start)
    return answer


def _resident_mb(pid: str = "self") -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _clients(call, url: str, *arguments) -> dict:
    """Runs two processes of clients that start together. Returns figures by kind of request."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=call, args=(url, *arguments, theirs))
        process.start()
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()
    start = time.monotonic()
    for pipe in pipes:
        pipe.send(True)
    results = [pipe.recv() for pipe in pipes]
    taken = time.monotonic() - start
    for process in processes:
        process.join()
    figures: dict = {"refused": sum(len(failures) for _, failures in results)}
    for verb in ("check-in", "upload"):
        times = np.sort(np.concatenate([of[verb] for of, _ in results]))
        if len(times):
            figures[verb] = {
                "count": len(times),
                "a second": round(len(times) / taken, 1),
                "p50 ms": round(1000 * float(np.quantile(times, 0.5)), 1),
                "p99 ms": round(1000 * float(np.quantile(times, 0.99)), 1),
            }
    return figures


def main() -> None:
    """Prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--uploads", type=int, default=10_000)
    parser.add_argument("--check-in-seconds", type=float, default=30.0)
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = context.Pipe()
        server = context.Process(target=serve, args=(pathlib.Path(name), args.uploads, theirs))
        server.start()
        port = ours.recv()
        url, start, ended = f"http://127.0.0.1:{port}", time.monotonic(), []
        result: dict = {"load before": os.getloadavg(), "uploads": args.uploads}

        def wait_for_memory() -> None:
            memory, cpu = ours.recv()
            result["server MB after each round"] = [round(mb, 1) for mb in memory]
            result["server CPU ms an upload and its check-in"] = round(1000 * cpu / args.uploads, 3)
            ended.append(time.monotonic() - start)

        waiting = threading.Thread(target=wait_for_memory)
        waiting.start()
        parts = []
        while not ended:  # until the server has enough uploads
            parts.append(_clients(work, url, 30.0))
        waiting.join()
        seconds = ended[0]
        result["upload"] = {
            "a second": round(args.uploads / seconds, 2),
            "p50 ms": float(np.median([part["upload"]["p50 ms"] for part in parts])),
            "p99 ms, largest of 30 s": max(part["upload"]["p99 ms"] for part in parts),
        }
        seconds = args.check_in_seconds
        for name, is_kept in (("kept connections", True), ("new connections", False)):
            ours.send(True)
            before = ours.recv()
            figures = _clients(crowd, url, is_kept, seconds)
            ours.send(True)
            cpu = ours.recv() - before
            figures["server CPU ms"] = round(1000 * cpu / figures["check-in"]["count"], 3)
            result[f"crowd, {name}"] = figures
        result["load after"] = os.getloadavg()
        ours.send(False)
        server.join()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
