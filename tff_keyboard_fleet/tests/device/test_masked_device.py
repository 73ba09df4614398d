"""Devices in a secure sum, each with its own store, against the server over HTTP."""

import contextlib
import dataclasses
import pathlib
import stat
import time

import numpy as np
import pytest

from tff_keyboard.storage.errors import ExportError
from tff_keyboard_fleet.device.cache import ClientCache, Example
from tff_keyboard_fleet.device.client import RoundClient
from tff_keyboard_fleet.device.device import LATER_SECONDS, Device
from tff_keyboard_fleet.device.store import DeviceStore
from tff_keyboard_fleet.device.training_process import Done, encoded
from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.serving import RoundServer
from tff_keyboard_fleet.tests.device.test_device import FACTS, Killed
from tff_keyboard_fleet.tests.round_server.test_secure_rounds import SUMS, Server
from tff_keyboard_fleet.tests.support.served_fakes import free_port
from tff_keyboard_fleet.wire import messages, secure_steps
from tff_keyboard_fleet.wire.messages import Refused
from tff_keyboard_fleet.wire.plan import Codec, Plan


class Phone:
    """One device, in this process. `kill` deletes what is only in memory."""

    def __init__(self, directory, url, delta):
        self.directory, self.url, self.delta, self.said = directory, url, delta, []
        store = DeviceStore(directory)
        with contextlib.closing(ClientCache(store.cache)) as cache:
            cache.add([Example(text="secret")], now=time.time(), max_per_category=9)
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
    with contextlib.closing(Server(tmp_path, goal=8, max_seats=8, deadline_seconds=100)) as server:
        port = free_port()
        http = RoundServer(lambda *request: server.app(*request), "127.0.0.1", port)
        server.time = time.time()
        http.start()
        rng = np.random.default_rng(0)
        deltas = rng.uniform(-0.2, 0.2, [8, 5]).astype(np.float32)
        phones = [
            Phone(tmp_path / f"phone{number}", f"http://127.0.0.1:{port}", delta)
            for number, delta in enumerate(deltas)
        ]
        yield server, phones, deltas
        for phone in phones:
            phone.store.close()
        http.stop()


def settle(server, phones, seconds=0):
    """Lets all devices continue in turn, with the given seconds between, until none waits."""
    waiting = phones
    for _ in range(100):
        waiting = [phone for phone in waiting if phone.device.attempt()]
        if not waiting:
            return
        server.time += seconds
    raise AssertionError("the sum does not end")


def test_devices_complete_the_sum_and_delete_their_text(fleet):
    server, phones, deltas = fleet
    settle(server, phones)
    np.testing.assert_allclose(server.total(), deltas.sum(0), atol=8 * SUMS.step)
    for phone in phones:
        assert phone.texts() == 0
        assert phone.store.state.task is None
        assert phone.store.state.token
        assert not phone.store.upload.exists()


def test_device_advertises_before_it_trains(fleet):
    server, (slow, *others), deltas = fleet

    def train(job, seconds):
        server.time += 55  # others' keys are waited for till 50
        return slow.train(job, seconds)

    slow.device._train = train
    settle(server, [*others, slow])
    np.testing.assert_allclose(server.total(), deltas.sum(0), atol=8 * SUMS.step)


def test_a_device_that_was_killed_has_dropped_out_and_keeps_its_text(fleet):
    server, (killed, *others), deltas = fleet
    for phone in (killed, *others):
        assert phone.device.attempt() > 0  # all have advertised when the last has
    killed.kill()
    assert killed.device.attempt() == LATER_SECONDS
    assert "replay" in killed.said[-1]
    settle(server, others, 5)
    np.testing.assert_allclose(server.total(), deltas[1:].sum(0), atol=8 * SUMS.step)
    assert server.store.round.state == rounds.AGGREGATING
    assert killed.texts() == 1
    assert killed.store.state.task is None


def test_unknown_neighbours_give_up_the_seat(fleet):
    _, phones, _ = fleet
    keys = {phone.store.key().public_key().public_bytes_raw() for phone in phones}
    trusting, picky = phones[-2:]
    trusting.device._known, picky.device._known = keys, set()
    waits = [phone.device.attempt() for phone in phones]
    assert waits[-1] == LATER_SECONDS
    assert "known device" in picky.said[-1]
    assert trusting.device.attempt() < LATER_SECONDS
    assert picky.texts() == 1


def test_a_seat_that_was_given_up_leaves_no_keys_to_the_next(fleet, monkeypatch):
    """The server gives the same assignment twice.

    Under the others' plan their updates are zeros. With its old keys, the target would add an
    update by another plan, and the sum would be its vector.
    """
    server, (target, *others), _ = fleet
    for phone in others:
        phone.delta = np.zeros(5, np.float32)
    client, answers, shared = target.device._client, [], []
    check_in, secure = client.check_in, client.secure

    def same_seat(message):
        answers.append(answers[0] if answers else check_in(message))
        return answers[0]

    def refused_once(round_num, step, message):
        answer = secure(round_num, step, message)
        if step == "share" and not shared:
            shared.append(message)
            raise Refused("bad_step", "a lie: the shares were taken", 1)
        return answer

    monkeypatch.setattr(client, "check_in", same_seat)
    monkeypatch.setattr(client, "secure", refused_once)
    for phone in (*others, target, *others):
        phone.device.attempt()
    assert len(shared) == 1
    target.store.change(not_before=0.0)
    for _ in range(4):
        for phone in (target, *others):
            if phone is target or phone.store.state.task is not None:
                phone.device.attempt()
    settle(server, [phone for phone in others if phone.store.state.task is not None], 5)
    assert len(answers) == 2
    np.testing.assert_array_equal(server.total(), np.zeros(5))
    assert target.texts() == 1


def test_a_device_that_could_not_train_takes_part_and_keeps_its_text(fleet, monkeypatch):
    """`training_process` then writes zeros.

    A dropout would tell the server that training failed.
    """
    server, (failed, *others), deltas = fleet
    failed.delta = np.zeros(5, np.float32)
    train = failed.train
    monkeypatch.setattr(
        failed.device, "_train", lambda *job: dataclasses.replace(train(*job), steps=0)
    )
    settle(server, [failed, *others])
    np.testing.assert_allclose(server.total(), deltas[1:].sum(0), atol=8 * SUMS.step)
    assert (failed.texts(), others[0].texts()) == (1, 0)
    assert failed.store.state.token


@pytest.mark.parametrize("wanted", [5, 6])
def test_a_device_has_its_own_least_number_in_a_sum(fleet, wanted):
    """Four shares of six recover a secret: no server gets a sum of fewer than five."""
    _, (picky, *_), _ = fleet
    picky.device._min_devices_in_sum = wanted
    picky.device.attempt()
    assert ("requires 6" in picky.said[-1]) == (wanted == 6)
    assert (picky.store.state.task is None) == (wanted == 6)


@pytest.mark.parametrize(
    "change, refusal",
    [
        (dict(step=1e-19, clip_norm=1e30, bits=64), "so that no sum wraps"),
        (dict(step=1e-308, clip_norm=1e308), "so that no sum wraps"),
        (dict(step=7.001 * 2.0**-31), None),  # six neighbours and this device: seven numbers
        (dict(step=6.999 * 2.0**-31), "so that no sum wraps"),
        (dict(step=0.0), "`plan.secure_sums.step` must be finite and > 0"),
        (dict(step=-1e-6), "`plan.secure_sums.step` must be finite and > 0"),
        (dict(clip_norm=-1), "`plan.secure_sums.clip_norm` must be finite and > 0"),
        (dict(bits=10**9), "`plan.secure_sums.bits` must be one of"),
        (dict(bits=16), "`plan.secure_sums.bits` must be one of"),
        (dict(degree=-1), "`plan.secure_sums.degree` must be >= 1"),
    ],
)
def test_a_plan_whose_integers_may_wrap_is_not_followed(fleet, change, refusal):
    """With a step so small that large numbers saturate, a sum shows the small ones."""
    server, (phone, *_), _ = fleet
    sums = dataclasses.replace(SUMS, **change)
    plan = dataclasses.replace(server.plan, secure_sums=sums).to_bytes()
    if refusal is None:
        assert phone.device._plan(plan).secure_sums == sums
    else:
        with pytest.raises(ExportError, match=refusal):
            phone.device._plan(plan)


def test_a_plan_in_clear_is_not_followed_by_a_device_that_wants_sums(fleet):
    server, (picky, *_), _ = fleet
    clear = dataclasses.replace(server.plan, codec=Codec(), secure_sums=None)
    picky.device._min_devices_in_sum = 2
    with pytest.raises(ExportError, match="sums at least 1 devices, but this device requires 2"):
        picky.device._plan(clear.to_bytes())


@pytest.fixture
def killed(fleet, monkeypatch):
    """Ends a device between the server's acceptance of its upload and its own note of it."""
    server, (killed, *others), _ = fleet

    def die(*accepted):
        raise Killed

    killed.device._accepted = die
    with pytest.raises(Killed):
        settle(server, [*others, killed])
    killed.kill()
    assert killed.texts() == 1
    return killed


@pytest.mark.parametrize("is_over", [False, True])
def test_a_masked_upload_is_sent_again_byte_for_byte(is_over, fleet, killed):
    server, (_, *others), deltas = fleet
    task = killed.store.state.task
    _, payload = messages.unpack_upload(killed.store.upload.read_bytes())
    assert payload != encoded(killed.delta, server.plan, task.assignment)
    assert stat.S_IMODE(killed.store.upload.stat().st_mode) == 0o600
    if is_over:
        settle(server, others)
        killed.store.change(task=dataclasses.replace(task, upload_before=0.0))
    assert killed.device.attempt() == 0
    if not is_over:
        settle(server, others)
    np.testing.assert_allclose(server.total(), deltas.sum(0), atol=8 * SUMS.step)
    assert killed.texts() == 0
    assert killed.store.state.token
    assert killed.store.state.task is None
    assert not killed.store.upload.exists()


def test_a_sum_that_is_over_is_not_asked_again_and_again(fleet, killed):
    server, (_, *others), _ = fleet
    settle(server, others)
    task = dataclasses.replace(killed.store.state.task, sent=False)
    killed.store.change(task=task, first_rounds={})
    assert killed.device.attempt() == LATER_SECONDS
    assert "has closed the sum" in killed.said[-1]


def test_the_text_of_a_masked_upload_that_does_not_count_is_not_used_again(fleet, monkeypatch):
    server, (killed, *others), deltas = fleet

    def die(*upload):
        raise Killed

    monkeypatch.setattr(killed.device._client, "upload", die)
    with pytest.raises(Killed):
        settle(server, [*others, killed])
    killed.kill()
    settle(server, others, 5)
    assert killed.texts() == 1
    assert killed.device.attempt() == LATER_SECONDS
    assert killed.texts() == 0
    assert not killed.store.upload.exists()
    np.testing.assert_allclose(server.total(), deltas[1:].sum(0), atol=8 * SUMS.step)


def test_accepted_upload_counts_even_if_the_sum_fails_later(fleet, monkeypatch):
    _, phones, _ = fleet
    honest = RoundClient.secure

    def secure(self, round_num, step, message):
        if step == "confirm":
            return secure_steps.Next(reported={}, dropped=[])
        return honest(self, round_num, step, message)

    monkeypatch.setattr(RoundClient, "secure", secure)
    for _ in range(3):
        for phone in phones:
            phone.device.attempt()
    assert [phone.texts() for phone in phones] == [0] * len(phones)
    assert all(phone.store.state.token for phone in phones)
