"""Devices in a secure sum, each in a store of its own, against the server over HTTP."""

import contextlib
import pathlib
import time

import numpy as np
import pytest

from tests.round_server.test_secure_rounds import SUMS, Server
from tests.support.fleet.served_fakes import free_port
from tests.tflite_export.device.test_device import FACTS
from tff_keyboard.round_server import rounds
from tff_keyboard.round_server.serving import RoundServer
from tff_keyboard.wire import messages
from tff_keyboard.wire.plan import Plan
from tflite_export.device.cache import ClientCache, Example
from tflite_export.device.client import RoundClient
from tflite_export.device.device import LATER_SECONDS, Device
from tflite_export.device.store import DeviceStore
from tflite_export.device.training_process import Done, encoded


class Phone:
    """One device, in this process; `kill` takes what it had in memory."""

    def __init__(self, directory, url, delta):
        self.directory, self.url, self.delta, self.said = directory, url, delta, []
        store = DeviceStore(directory)
        with contextlib.closing(ClientCache(store.cache)) as cache:
            cache.add([Example(text="secret")], now=time.time(), most_per_category=9)
        store.close()
        self.start()

    def start(self):
        self.store = DeviceStore(self.directory)
        client = RoundClient(self.url, self.store.key(), sleep=lambda seconds: None)
        self.device = Device(
            self.store, client, lambda: FACTS, train=self.train, say=self.said.append
        )

    def kill(self):
        self.store.close()
        self.start()

    def texts(self):
        with contextlib.closing(ClientCache(self.store.cache)) as cache:
            return len(cache)

    def train(self, job, seconds):
        plan = Plan.from_bytes(pathlib.Path(job.plan).read_bytes())
        header = messages.UploadHeader(
            assignment=job.assignment,
            weight=1.0,
            loss=0.0,
            codec=plan.codec.name,
            shape=[self.delta.size],
        )
        body = messages.pack_upload(header, encoded(self.delta, plan, job.assignment))
        pathlib.Path(job.upload).write_bytes(body)
        return Done(weight=1.0, loss=3.0, steps=1, upload_bytes=len(body))


@pytest.fixture
def fleet(tmp_path):
    with contextlib.closing(Server(tmp_path, deadline_seconds=100)) as server:
        port = free_port()
        http = RoundServer(lambda *request: server.app(*request), "127.0.0.1", port, None)
        server.time = time.time()
        http.start()
        rng = np.random.default_rng(0)
        deltas = rng.uniform(-0.2, 0.2, [10, 5]).astype(np.float32)
        phones = [
            Phone(tmp_path / f"phone{number}", f"http://127.0.0.1:{port}", delta)
            for number, delta in enumerate(deltas)
        ]
        yield server, phones, deltas
        for phone in phones:
            phone.store.close()
        http.stop()


def settle(server, phones, seconds=0):
    """Lets all go on in turn, so many seconds apart, until none waits."""
    waiting = phones
    for _ in range(100):
        waiting = [phone for phone in waiting if phone.device.attempt()]
        if not waiting:
            return
        server.time += seconds
    raise AssertionError("the sum does not end")


def test_devices_come_to_the_sum_and_delete_their_text(fleet):
    server, phones, deltas = fleet
    settle(server, phones)
    np.testing.assert_allclose(server.total(), deltas.sum(0), atol=10 * SUMS.step)
    for phone in phones:
        assert phone.texts() == 0
        assert phone.store.state.task is None
        assert phone.store.state.token
        assert not phone.store.upload.exists()


def test_who_trains_for_long_has_advertised_before(fleet):
    server, (slow, *others), deltas = fleet

    def train(job, seconds):
        server.time += 55  # others' keys are waited for till 50
        return slow.train(job, seconds)

    slow.device._train = train
    settle(server, [*others, slow])
    np.testing.assert_allclose(server.total(), deltas.sum(0), atol=10 * SUMS.step)


def test_a_device_that_was_killed_has_dropped_out_and_keeps_its_text(fleet):
    server, (killed, *others), deltas = fleet
    for phone in (killed, *others):
        assert phone.device.attempt() > 0  # all have advertised when the last has
    killed.kill()
    assert killed.device.attempt() == LATER_SECONDS
    assert "replay" in killed.said[-1]
    settle(server, others, 5)
    np.testing.assert_allclose(server.total(), deltas[1:].sum(0), atol=10 * SUMS.step)
    assert server.store.round.state == rounds.AGGREGATING
    assert killed.texts() == 1
    assert killed.store.state.task is None
