"""A served training without models, to be killed anywhere, and the devices that take part in it.

`python -m tff_keyboard_fleet.tests.support.served_fakes FOLDER` serves it on a port in forks \\
    of one process,
kills the first fork of each place with SIGKILL, and prints what came of it as a JSON line.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from typing import NamedTuple

import numpy as np

from tests.support import fakes
from tff_keyboard.host import quiet
from tff_keyboard.storage import files
from tff_keyboard_fleet.round_server.app import Population, RoundApplication
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.tests.support import devices
from tff_keyboard_fleet.tests.support.devices import Device, key_of
from tff_keyboard_fleet.wire import messages

ROUNDS, DEVICES, PARAMETERS = 3, 2, 4
ROUND_SETTINGS = RoundSettings(
    goal=DEVICES, max_seats=DEVICES, min_reports=1, deadline_seconds=600, separation=1
)
PLAN = dataclasses.replace(devices.PLAN, vocabulary="", parameters=PARAMETERS)
# Where a server may die, in the order of a round.
PLACES = (
    "seat",  # given, but not told
    "uncommitted",  # an upload is written, its transaction is open
    "accepted",  # an upload is on disk, but not answered
    "aggregating",
    "ledger",
    "kept",  # the weights are on disk
    "row",
    "checkpoint",
    "forgotten",  # the uploads are, and the round counts as released
    "released",
)


class Weights(NamedTuple):
    trainable: list


class State(NamedTuple):
    global_model_weights: Weights


class Output(NamedTuple):
    state: State
    metrics: dict


class MeanProcess:
    """A process that adds the mean of the uploads."""

    def __init__(self, die):
        self._die = die

    def initialize(self):
        return State(Weights([np.zeros(PARAMETERS, np.float32)]))

    def next(self, state, uploads):
        self._die("aggregating")
        (weights,) = state.global_model_weights.trainable
        weights = weights + np.mean([upload["delta"] for upload in uploads], axis=0)
        metrics = {"finalizer": {"update_non_finite": np.int32(0)}}
        return Output(State(Weights([weights.astype(np.float32)])), metrics)

    def get_model_weights(self, state):
        return state.global_model_weights


class Ledger:
    """A hook that writes one line for each round, as the privacy ledger does."""

    def __init__(self, path, die):
        self._path, self._die = path, die

    def restart_after(self, round_num):
        lines = self._path.read_bytes().splitlines(keepends=True) if self._path.exists() else []
        files.write_atomically(self._path, lines[:round_num])

    def before_release(self, round_num, state, metrics):
        del state, metrics
        files.append(self._path, b"%d\n" % round_num)
        self._die("ledger")


class Dies:
    """A hook that dies."""

    def __init__(self, die, place):
        self._die, self._place = die, place

    def restart_after(self, round_num):
        pass

    def before_release(self, round_num, state, metrics):
        self._die(self._place)


class DyingStore(RoundStore):
    """A store that dies after an operation."""

    def __init__(self, folder, die):
        self._die = lambda place: None
        super().__init__(folder, ROUND_SETTINGS, time.time)
        self._die = die

    def take_seat(self, device, assignment):
        found = super().take_seat(device, assignment)
        if found:
            self._die("seat")
        return found

    def _put(self, now):
        super()._put(now)
        if now.accepted and self._db.in_transaction:
            self._die("uncommitted")

    def accept(self, number, device, upload):
        found = super().accept(number, device, upload)
        self._die("accepted")
        return found

    def release(self, number):
        super().release(number)
        if number:
            self._die("forgotten")


def train(folder, serve, die=lambda place: None):
    """Trains in a folder. `serve(app)` is a context in which devices reach the application."""
    from tff_keyboard.training.loop import checkpoints, release, training_loop
    from tff_keyboard_fleet.on_devices.device_rounds import DeviceRounds

    class Checkpoints(checkpoints.CheckpointManager):
        async def save(self, program_state, version):
            die("row")
            await super().save(program_state, version)
            die("checkpoint")

    folder.mkdir(exist_ok=True)
    blobs = Blobs(folder / "blobs")
    with contextlib.closing(DyingStore(folder, die)) as store:
        rounds = DeviceRounds(
            store,
            blobs,
            initial=np.zeros(PARAMETERS, np.float32),
            order=np.arange(PARAMETERS)[::-1],
            plan_of=lambda round_num: PLAN,
            hand_over=lambda elements: elements,
            total_rounds=ROUNDS,
            graph=PLAN.graph,
        )
        population = Population(
            name="keyboard", run=store.run_id, parameters=PARAMETERS, codec=messages.RAW
        )
        app = RoundApplication(store, blobs, population, key_of("server"))

        def progress(done):
            rounds.released(done)
            die("released")

        loop = training_loop.TrainingLoop(
            process=MeanProcess(die),
            cohort_source=rounds.round_input,
            total_rounds=ROUNDS,
            checkpoint_manager=Checkpoints(folder / "checkpoints"),
            release_managers=[release.MetricsRelease(folder / "rows.jsonl", folder / "rows.csv")],
            hooks=[Ledger(folder / "ledger", die), rounds, Dies(die, "kept")],
            progress=progress,
        )
        with serve(app), contextlib.closing(rounds):
            result = loop.train()
        files.write_atomically(folder / "digest", [fakes.digest(result.state).encode()])


def delta_of(round_num, number):
    return np.random.default_rng([round_num, number]).normal(size=PARAMETERS).astype(np.float32)


def take_part(app, seen, is_over):
    """Runs devices one after the other in every round. `seen` collects the models of each round."""
    devices = [Device(app, number) for number in range(DEVICES)]
    for round_num in range(1, ROUNDS + 1):
        for device in devices:
            while not is_over.is_set():
                with contextlib.suppress(OSError, AssertionError, json.JSONDecodeError):
                    if _takes_part(device, round_num, seen):
                        break
                is_over.wait(0.01)


def _takes_part(device, round_num, seen):
    task = getattr(device.check_in(), "task", None)
    if task is None or task.round != round_num:
        # Its answer may be lost: of an upload that counts, the seat is taken.
        return getattr(device, "sent", None) == round_num and _is_accepted(device)
    device.model(task)
    seen.setdefault(round_num, set()).add(task.model)
    device.task, device.sent = task, round_num
    return _is_accepted(device)


def _is_accepted(device):
    found = device.upload(device.task, delta_of(device.sent, device.number))
    return isinstance(found, messages.Accepted)


def outcome(folder):
    """Returns the results that must not depend on kills."""
    return {name: (folder / name).read_text() for name in ("ledger", "rows.csv", "digest")}


def over_http(port):
    """Returns an application that forwards to a server.

    It raises `OSError` if there is no server.
    """

    def app(environ, start_response):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        headers = {
            name[5:].replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith("HTTP_DEVICE")
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{environ['PATH_INFO']}",
            data=environ["wsgi.input"].read(length) or None,
            headers=headers,
            method=environ["REQUEST_METHOD"],
        )
        try:
            answer = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            start_response(f"{answer.status} -", list(answer.headers.items()))
            return [answer.read()]

    return app


def main():
    """Runs the program of the module."""
    from tff_keyboard_fleet.round_server.serving import RoundServer

    quiet.import_tensorflow_federated()
    base = pathlib.Path(sys.argv[1])
    found = {}
    for place in ("", *PLACES):
        folder, port = base / f"at {place}", free_port()
        seen, is_over = {}, threading.Event()
        devices = threading.Thread(
            target=take_part, args=[over_http(port), seen, is_over], daemon=True
        )
        kills, status = 0, None
        while status is None or os.WIFSIGNALED(status):
            kills += status is not None
            pid = os.fork()
            if not pid:
                _child(RoundServer, folder, place if not kills else "", port)
            if not kills:
                devices.start()
            _, status = os.waitpid(pid, 0)
        is_over.set()
        devices.join()
        found[place] = {
            "kills": kills,
            "code": os.WEXITSTATUS(status),
            "models": {str(n): len(models) for n, models in seen.items()},
            "outcome": outcome(folder),
        }
    print(json.dumps(found))


def free_port():
    """Returns a port below the range of client ports.

    Otherwise a client that retries could connect to itself.
    """
    for port in np.random.default_rng().integers(20_000, 30_000, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", int(port)))
            return int(port)
    raise OSError("no port is free")


def _child(server_class, folder, place, port):
    @contextlib.contextmanager
    def serve(app):
        server = server_class(app, "127.0.0.1", port)
        server.start()
        yield
        server.stop()

    times = 0

    def die(here):
        nonlocal times
        times += here == place
        if times == 3 and here == place:  # in the second or third round
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        train(folder, serve, die)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    main()
