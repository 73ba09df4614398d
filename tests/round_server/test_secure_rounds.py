"""Secure sums on the server: exact whoever drops out or kills it, and one code for each trick."""

import contextlib
import dataclasses
import os
import pathlib
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats
from werkzeug import test

from tests.support.fleet import devices
from tests.support.fleet.devices import Device, code_of, key_of
from tests.support.fleet.masked import masked_upload, settle
from tff_keyboard.round_server import rounds
from tff_keyboard.round_server.app import Population, RoundApplication
from tff_keyboard.round_server.blobs import Blobs
from tff_keyboard.round_server.rounds import Terms
from tff_keyboard.round_server.secure_rounds import SecureRoundStore
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.wire import messages, secure_steps, weights
from tff_keyboard.wire.messages import Refused
from tff_keyboard.wire.plan import Codec, SecureSums
from tff_keyboard.wire.secure_sums.device import SEALED_BYTES
from tff_keyboard.wire.secure_sums.device import Device as SumDevice
from tff_keyboard.wire.secure_sums.grid import from_grid
from tff_keyboard.wire.secure_sums.messages import Advert, Settings

SUMS = SecureSums(clip_norm=1.0, step=2.0**-20, bits=32, degree=6, threshold=4)


class Server:
    """A server of one secure round, which may be killed between any two requests."""

    def __init__(self, folder, size=5, **terms):
        terms = {"goal": 10, "most": 10, "least": 7, "deadline_seconds": 600, **terms}
        self.terms = Terms(separation=1, sums=secure_steps.settings(SUMS, size), **terms)
        self.folder, self.time, self.store = folder, 1e9, None
        self.blobs = Blobs(folder / "blobs")
        graph = self.blobs.keep(b"graph")
        self.plan = dataclasses.replace(
            devices.PLAN,
            parameters=size,
            graph=graph,
            codec=Codec(name=messages.MASKED),
            secure_sums=SUMS,
        )
        self.start()
        self.store.restart_after(0)
        names = [
            self.blobs.keep(b) for b in (weights.to_bytes(np.zeros(size)), self.plan.to_bytes())
        ]
        for name in (graph, *names):
            self.blobs.show(name)
        self.store.open_round(1, *names)

    def start(self):
        """A process begins, whatever became of the one before."""
        self.store = SecureRoundStore(self.folder, self.terms, lambda: self.time)
        population = Population(
            name="keyboard",
            run=self.store.run_id,
            parameters=self.plan.parameters,
            codec=messages.MASKED,
        )
        self.app = RoundApplication(
            self.store, self.blobs, population, key_of("server"), lambda: self.time
        )

    def kill(self):
        self.store.close()
        self.start()

    def wait(self):
        self.time += 20

    def device(self, number):
        found = Device(lambda *request: self.app(*request), number, clock=lambda: self.time)
        self.blobs.show(self.plan.sha256)
        return found

    def uploads(self, count=10, after=lambda: None):
        """Devices with seats, and their deltas."""
        found, deltas = [], []
        for number in range(count):
            device = self.device(number)
            task = device.check_in(self.plan.sha256).task
            rng = np.random.default_rng(number)
            deltas.append(rng.uniform(-0.2, 0.2, self.plan.parameters).astype(np.float32))
            found.append(masked_upload(device, task, self.plan, deltas[-1], after))
        return found, deltas

    def close(self):
        self.store.close()

    def total(self):
        now = self.store.round
        assert now.state == rounds.AGGREGATING
        return from_grid(self.store.total(now), step=SUMS.step)


@pytest.fixture
def server(tmp_path):
    with contextlib.closing(Server(tmp_path)) as found:
        yield found


def test_the_sum_is_that_of_the_deltas(server):
    uploads, deltas = server.uploads()
    assert not settle(uploads)
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)
    plain = [weights.to_bytes(delta) for delta in deltas]
    assert all(upload.payload not in plain for upload in server.store.uploads(1, 1))
    server.store.release(1)
    assert not server.store._db.all("SELECT * FROM sums")


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_whoever_drops_out_after_so_many_steps_is_not_in_it(server, steps):
    uploads, deltas = server.uploads()
    gone = dict(zip(uploads[:2], [_Stopping(upload, steps) for upload in uploads[:2]], strict=True))
    assert not settle([*gone.values(), *uploads[2:]], server.wait)
    there = deltas if steps == 3 else deltas[2:]
    np.testing.assert_allclose(server.total(), np.sum(there, axis=0), atol=10 * SUMS.step)
    assert server.store.round.accepted == len(there)


class _Stopping:
    """An upload whose device is gone after so many steps of the sum."""

    def __init__(self, upload, steps):
        self._upload, self._steps, self.assignment = upload, steps, upload.assignment
        self._client = upload._client
        upload._client = self

    def secure(self, round_num, step, message):
        self._gone(["advertise", "share", "-", "unmask"].index(step))
        return self._client.secure(round_num, step, message)

    def upload(self, round_num, body):
        self._gone(2)
        return self._client.upload(round_num, body)

    def _gone(self, step):
        if step >= self._steps:
            raise ConnectionError

    def go_on(self):
        try:
            return self._upload.go_on()
        except ConnectionError:
            return None


def test_a_kill_after_each_request_changes_nothing(server):
    uploads, deltas = server.uploads(after=server.kill)
    assert not settle(uploads)
    server.kill()
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)


@pytest.mark.slow
def test_sigkill_in_every_request_changes_nothing(tmp_path):
    command = [sys.executable, "-m", "tests.round_server.test_secure_rounds", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 90


def main():
    """Each request three times: of a process that dies in its transaction, behind it, and not.

    In a Python of its own: it forks, and the one of other tests has threads.
    """
    server = Server(pathlib.Path(sys.argv[1]))
    open_store = server.start
    server.store.close()
    kills = 0

    def app(environ, start_response):
        nonlocal kills
        for place in ("in", "behind", ""):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                _answer_or_die(server, open_store, place, environ, writing)
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                data = pipe.read()
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            kills += status == -signal.SIGKILL
            if data:
                status, body = pickle.loads(data)
                start_response(status, [])
                return [body]
        raise AssertionError(f"a server ended with {status}")

    server.app = app
    uploads, deltas = server.uploads()
    assert not settle(uploads)
    open_store()
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)
    server.close()
    print(kills)


def _answer_or_die(server, open_store, place, environ, writing):
    """The whole life of a server's process, for one request."""
    try:
        open_store()
        if place == "in":
            put = server.store._db.put
            server.store._db.put = lambda *row: (put(*row), os.kill(os.getpid(), signal.SIGKILL))
        found = test.run_wsgi_app(server.app, environ)
        if place == "behind":
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(writing, pickle.dumps((found[1], b"".join(found[0]))))
    finally:
        os._exit(1)


def test_what_was_rolled_back_is_not_in_memory(server, monkeypatch):
    uploads, deltas = server.uploads()
    monkeypatch.setattr(server.store, "_note", lambda *arguments: 1 / 0)
    status, _ = _advertise(server, uploads[0])
    assert status == 503
    monkeypatch.undo()
    assert not settle(uploads)
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)


def test_the_goal_ends_the_reports(tmp_path):
    with contextlib.closing(Server(tmp_path, goal=8)) as server:
        uploads, _ = server.uploads()
        assert set(settle(uploads, server.wait).values()) == {"surplus"}
        assert server.store.round.accepted == 8


def test_with_too_few_a_round_is_abandoned_and_has_other_keys(server):
    uploads, _ = server.uploads(4)
    label = server.store.label(server.store.round)
    for upload in uploads:
        assert upload.go_on() > 0
    server.time += 601
    assert server.store.round.attempt == 2
    assert server.store.label(server.store.round) != label
    assert set(settle(uploads).values()) == {"late"}


@pytest.mark.parametrize("has_dropped", [False, True])
def test_a_false_dealer_costs_the_round_once(server, has_dropped):
    (hostile, *others), _ = server.uploads()
    if has_dropped:  # then its key of masks is put together, else its secret
        hostile._device._mask = X25519PrivateKey.generate()
        hostile = _Stopping(hostile, 2)
    else:
        honest = hostile._client.secure

        def secure(round_num, step, message):
            if step == "share":
                message = dataclasses.replace(message, own_secret="00" * 32)
            return honest(round_num, step, message)

        hostile._client.secure = secure
    settle([hostile, *others], server.wait)
    assert (server.store.round.attempt, server.store.round.state) == (2, rounds.SELECTING)
    for _ in range(2):  # the second time after a kill
        assert server.device(0).check_in(server.plan.sha256) == "too_soon"
        assert server.device(1).check_in(server.plan.sha256).task is not None
        server.kill()
    uploads = [masked_upload(*x) for x in _seated(server, range(1, 11))]
    assert not settle(uploads)
    server.total()
    server.store.release(1)
    names = [server.blobs.keep(weights.to_bytes(np.zeros(5))), server.plan.sha256]
    server.store.open_round(2, *names)
    assert server.device(0).check_in(server.plan.sha256).task is not None


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_dealer_of_shares_that_nobody_can_open_costs_one_attempt(server, is_killed):
    (hostile, *others), _ = server.uploads()
    honest = hostile._client.secure

    def secure(round_num, step, message):
        if step == "share":
            closed = [dataclasses.replace(x, sealed="00" * SEALED_BYTES) for x in message.envelopes]
            message = dataclasses.replace(message, envelopes=closed)
        return honest(round_num, step, message)

    hostile._client.secure = secure
    assert not settle([hostile, *others])
    if is_killed:
        server.kill()
    server.time += 600
    assert (server.store.round.attempt, server.store.round.state) == (2, rounds.SELECTING)
    if is_killed:
        server.kill()
    assert server.device(0).check_in(server.plan.sha256) == "too_soon"
    assert not settle([masked_upload(*x) for x in _seated(server, range(1, 11))])
    server.total()


def test_a_device_with_one_key_twice_is_refused_and_hurts_nobody(server):
    (hostile, *others), deltas = server.uploads()
    key, label = hostile._device.advert.mask, hostile._device._settings.label
    twice = Advert.signed(key_of(0), label, channel=key, mask=key)
    message = secure_steps.advertise(hostile.assignment, twice)
    assert _posting(server, 0)("advertise", message) == "bad_step"
    assert not settle(others, server.wait)
    np.testing.assert_allclose(server.total(), np.sum(deltas[1:], axis=0), atol=10 * SUMS.step)


def test_the_clock_of_a_sum_goes_on_over_a_kill(server):
    uploads, _ = server.uploads(8)
    server.time += 290
    server.kill()
    for upload in uploads:
        upload.go_on()
    server.time += 10
    for upload in uploads:
        upload.go_on()  # at half of the first clock its circle is closed
    assert all(upload._share for upload in uploads)
    server.time += 300
    assert server.store.round.attempt == 2


@pytest.mark.parametrize("seats", [6, 7])
def test_who_gets_a_seat_has_a_quarter_of_the_time_or_is_waited_for(server, seats):
    for number in range(seats):
        assert server.device(number).check_in(server.plan.sha256).task is not None
    server.time += 149
    assert server.store.round.state == rounds.SELECTING
    server.time += 1
    assert (server.device(9).check_in(server.plan.sha256).task is None) == (seats == 7)
    assert server.store.round.state == rounds.RUNNING


def test_an_error_before_the_sum_changed_does_not_cost_the_sum(server):
    server.uploads(1)
    server.store.round  # noqa: B018
    kept = server.store._sum
    message = secure_steps.Unmask(assignment="\ud800")
    with pytest.raises(UnicodeEncodeError):
        server.store.step(1, b"anybody", b"", "unmask", message)
    assert kept is not None
    assert server.store._sum is kept


def _seated(server, numbers):
    """Arguments of the uploads of devices that check in."""
    for number in numbers:
        device = server.device(number)
        task = device.check_in(server.plan.sha256).task
        yield device, task, server.plan, np.zeros(server.plan.parameters)


def test_each_trick_has_its_code(server):
    (upload, *others), _ = server.uploads()
    advert = secure_steps.advertise(upload.assignment, upload._device.advert)
    post = _posting(server, 0)
    nothing = secure_steps.Share(assignment=upload.assignment, own_secret="", envelopes=[])
    assert post("share", nothing) == "bad_step"
    reveal = secure_steps.Unmask(assignment=upload.assignment, shares={})
    assert post("unmask", reveal) == "bad_step"
    assert post("advertise", dataclasses.replace(advert, mask="no hex")) == "bad_step"
    assert post("advertise", dataclasses.replace(advert, mask=advert.channel)) == "bad_step"
    assert post("advertise", dataclasses.replace(advert, assignment="another")) == "unknown_round"
    assert _posting(server, 1)("advertise", advert) == "unknown_round"  # of whom it is not
    assert post("guess", advert) == "not_found"
    assert post("advertise", advert) == post("advertise", advert) == "wait"
    forged = secure_steps.advertise(upload.assignment, begun_anew(upload).advert)
    assert post("advertise", forged) == "replay"
    assert upload.go_on() > 0  # the others have not advertised
    assert _put(server, 0, upload.assignment, b"\0" * 20) == "bad_step"
    assert _put(server, 0, upload.assignment, b"\0" * 24) == "wrong_shape"
    assert _put(server, 0, upload.assignment, b"\0" * 20, messages.RAW) == "bad_codec"
    assert not settle([upload, *others])
    assert server.store.round.state == rounds.AGGREGATING
    assert post("unmask", secure_steps.Unmask(assignment=upload.assignment)) == "done"


@pytest.mark.parametrize("key", ["channel", "mask"])
def test_a_key_that_nobody_can_agree_with_is_refused(server, key):
    (hostile, *others), deltas = server.uploads()
    keys = {"channel": b"\1" * 32, "mask": b"\1" * 32, key: bytes(32)}
    label = server.store.label(server.store.round).encode()
    advert = secure_steps.advertise(hostile.assignment, Advert.signed(key_of(0), label, **keys))
    assert _posting(server, 0)("advertise", advert) == "bad_step"
    assert not settle(others, server.wait)
    np.testing.assert_allclose(server.total(), np.sum(deltas[1:], axis=0), atol=10 * SUMS.step)


@pytest.mark.parametrize("part", ["sealed", "own", "pair"])
def test_an_envelope_of_another_length_is_refused(server, part):
    uploads, _ = server.uploads()
    client = uploads[0]._client
    honest = client.secure

    def secure(round_num, step, message):
        if step == "share":
            longer = [
                dataclasses.replace(x, **{part: getattr(x, part) * 9}) for x in message.envelopes
            ]
            message = dataclasses.replace(message, envelopes=longer)
        return honest(round_num, step, message)

    client.secure = secure
    assert settle(uploads, server.wait) == {uploads[0].assignment: "bad_step"}
    assert server.store.round.accepted == 9


def test_who_comes_behind_a_closed_step_is_late(server):
    uploads, _ = server.uploads()
    for upload in uploads[1:]:
        upload.go_on()
    server.time += 301
    with pytest.raises(Refused, match="late"):
        uploads[0].go_on()


def test_a_sum_begun_with_other_terms_is_not_gone_on_with(server):
    for upload in server.uploads(8)[0]:
        upload.go_on()
    server.time += 301
    assert server.store.round.state == rounds.RUNNING
    server.terms = dataclasses.replace(server.terms, least=9)
    with pytest.raises(RunDirectoryError, match="least_share"):
        server.kill()


def test_the_messages_of_the_most_neighbours_fit_json():
    settings = Settings(label=b"one", size=1, bits=32, degree=100, threshold=51)
    found = [SumDevice(settings, key_of(number)) for number in range(101)]
    shares = found[0].share([each.advert for each in found[1:]])
    written = [
        secure_steps.share("a" * 64, shares),
        secure_steps.envelopes(shares.envelopes),
        secure_steps.neighbours([each.advert for each in found[1:]]),
    ]
    assert max(len(messages.encode(each)) for each in written) <= messages.LONGEST_JSON


def test_a_share_that_was_not_dealt_is_refused(server):
    uploads, deltas = server.uploads()
    client = uploads[0]._client
    honest = client.secure

    def secure(round_num, step, message):
        if step == "unmask" and message.shares:
            false = dict.fromkeys(message.shares, "ab" * 33)
            message = dataclasses.replace(message, shares=false)
        return honest(round_num, step, message)

    client.secure = secure
    assert settle(uploads) == {uploads[0].assignment: "bad_step"}
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)


def test_what_lies_on_the_servers_disk_looks_uniform(tmp_path):
    with contextlib.closing(Server(tmp_path, size=20_000)) as server:
        uploads, _ = server.uploads()
        settle(uploads)
        for upload in server.store.uploads(1, 1):
            counts = np.bincount(np.frombuffer(upload.payload, np.uint8), minlength=256)
            assert stats.chisquare(counts).pvalue > 1e-6


def _advertise(server, upload):
    message = secure_steps.advertise(upload.assignment, upload._device.advert)
    return server.device(0).send("POST", "/v1/rounds/1/secure/advertise", messages.encode(message))


def begun_anew(upload):
    """The same device, begun anew, with other keys."""
    return type(upload._device)(upload._device._settings, key_of(0))


def _posting(server, number):
    def post(step, message):
        path = f"/v1/rounds/1/secure/{step}"
        status, data = server.device(number).send("POST", path, messages.encode(message))
        if status != 200:
            return code_of(data)
        found = messages.decode(secure_steps.Next, data)
        return "wait" if found.retry_after_s else "done"

    return post


def _put(server, number, assignment, payload, codec=messages.MASKED):
    header = messages.UploadHeader(
        assignment=assignment, weight=1.0, loss=0.0, codec=codec, shape=[5]
    )
    body = messages.pack_upload(header, payload)
    _, data = server.device(number).send("PUT", "/v1/rounds/1/upload", body)
    return code_of(data)


if __name__ == "__main__":
    main()
