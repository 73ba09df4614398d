"""What one round server bears: check-ins and uploads a second, p99, memory over many uploads.

    python -m benchmarks.fleet.load --uploads=10000

Server and clients are processes of this machine, over TLS on loopback; every device has a key of
its own and takes part once. Nothing is trained: uploads are noise, and a round is released as soon
as its uploads were read. Both sides share the cores, so the figures are below what a server alone
would bear; its CPU time a request is what it takes on any load. Threads share one interpreter: a
second of CPU is a second.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import tempfile
import threading
import time

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard.round_server.app import Population, RoundApplication
from tff_keyboard.round_server.blobs import Blobs
from tff_keyboard.round_server.round_store import RoundStore
from tff_keyboard.round_server.rounds import Terms
from tff_keyboard.round_server.serving import RoundServer, open_certificate
from tff_keyboard.wire import messages, weights
from tff_keyboard.wire.messages import Answer, CheckIn, Refused, UploadHeader
from tflite_export.device.client import RoundClient, ServerAway

PARAMETERS = 350_000  # 1.4 MB of float32
GOAL = 100
PLAN = b'{"plan": "of a benchmark"}'


def serve(folder: pathlib.Path, uploads: int, pipe) -> None:
    """The server's process: rounds of `GOAL` uploads until there were enough."""
    terms = Terms(goal=GOAL, most=2 * GOAL, least=GOAL, deadline_seconds=3600, separation=1)
    store = RoundStore(folder, terms, time.time)
    blobs = Blobs(folder / "blobs")
    model, plan = blobs.keep(weights.to_bytes(np.zeros(PARAMETERS))), blobs.keep(PLAN)
    for name in (model, plan):
        blobs.show(name)
    population = Population(
        name="load", run=store.run_id, parameters=PARAMETERS, codec=messages.RAW
    )
    app = RoundApplication(store, blobs, population, Ed25519PrivateKey.generate())
    server = RoundServer(app, "127.0.0.1", 0, open_certificate(folder, "127.0.0.1"))
    server.start()
    pipe.send((server.port, str(folder / "tls.crt")))
    memory, began = [], time.process_time()
    for number in range(1, uploads // GOAL + 1):
        store.open_round(number, model, plan)
        found = store.wait_for_uploads(number)
        assert found is not None
        read = sum(1 for _ in store.uploads(number, found.attempt))
        assert read == GOAL
        store.release(number)
        memory.append(_resident_mb())
    store.open_round(number + 1, model, plan)  # to be checked in to
    pipe.send((memory, time.process_time() - began))
    while pipe.recv():
        pipe.send(time.process_time())
    server.stop()
    store.close()


def work(url: str, certificate: str, uploads: bool, is_kept: bool, seconds: float, pipe) -> None:
    """A process of clients: four threads, each one device after the other, on one connection or
    each on its own."""
    found: dict[str, list[float]] = {"check-in": [], "upload": []}
    failures: list[str] = []
    payload = weights.to_bytes(np.random.default_rng(os.getpid()).normal(size=PARAMETERS))
    until = time.monotonic() + seconds

    def devices() -> None:
        client = RoundClient(url, Ed25519PrivateKey.generate(), ca=pathlib.Path(certificate))
        while time.monotonic() < until:
            client._key = Ed25519PrivateKey.generate()
            if not is_kept:
                client.close()
            message = CheckIn(protocol=1, population="load", plan=weights.sha256(PLAN), token=None)
            try:
                task = _timed(found["check-in"], client.check_in, message).task
                if task is None and uploads:
                    time.sleep(0.05)
                if task is None or not uploads:
                    continue
                header = UploadHeader(
                    assignment=task.assignment, weight=1.0, loss=1.0, codec=messages.RAW,
                    shape=[PARAMETERS],
                )  # fmt: skip
                body = messages.pack_upload(header, payload)
                _timed(found["upload"], client.upload, task.round, body)
            except Refused as error:
                failures.append(error.code)
            except ServerAway:
                if time.monotonic() < until and not uploads:
                    failures.append("away")
                return
        client.close()

    threads = [threading.Thread(target=devices) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.send((found, failures))


def _timed(into: list[float], call, *arguments) -> Answer:
    start = time.perf_counter()
    found = call(*arguments)
    into.append(time.perf_counter() - start)
    return found


def _resident_mb(pid: str = "self") -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _clients(
    url: str, certificate: str, *, uploads: bool, seconds: float, is_kept: bool = True
) -> dict:
    """Two processes of clients; figures by verb."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    start = time.monotonic()
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(
            target=work, args=(url, certificate, uploads, is_kept, seconds, theirs)
        )
        process.start()
        pipes.append(ours)
        processes.append(process)
    found = [pipe.recv() for pipe in pipes]
    taken = time.monotonic() - start
    for process in processes:
        process.join()
    figures: dict = {"refused": sum(len(failures) for _, failures in found)}
    for verb in ("check-in", "upload"):
        times = np.sort(np.concatenate([of[verb] for of, _ in found]))
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
        port, certificate = ours.recv()
        url, start, ended = f"https://127.0.0.1:{port}", time.monotonic(), []
        result: dict = {"load before": os.getloadavg(), "uploads": args.uploads}

        def wait_for_memory() -> None:
            memory, cpu = ours.recv()
            result["server MB after each round"] = [round(mb, 1) for mb in memory]
            result["server CPU ms an upload and its check-in"] = round(1000 * cpu / args.uploads, 3)
            ended.append(time.monotonic() - start)

        waiting = threading.Thread(target=wait_for_memory)
        waiting.start()
        parts = []
        while not ended:  # clients in spells, until the server has had enough
            parts.append(_clients(url, certificate, uploads=True, seconds=30.0))
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
            crowd = _clients(url, certificate, uploads=False, seconds=seconds, is_kept=is_kept)
            ours.send(True)
            cpu = ours.recv() - before
            crowd["server CPU ms"] = round(1000 * cpu / crowd["check-in"]["count"], 3)
            result[f"crowd, {name}"] = crowd
        result["load behind"] = os.getloadavg()
        ours.send(False)
        server.join()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
