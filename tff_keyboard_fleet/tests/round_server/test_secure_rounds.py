"""Secure sums on the server: exact for all dropouts and kills, and one code for each invalid
message.
"""

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

from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.app import Population, RoundApplication
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.round_server.secure_rounds import SecureRoundStore
from tff_keyboard_fleet.tests.support import devices
from tff_keyboard_fleet.tests.support.devices import Device, code_of, key_of
from tff_keyboard_fleet.tests.support.masked import masked_upload, settle
from tff_keyboard_fleet.wire import messages, secure_steps, weights
from tff_keyboard_fleet.wire.messages import Refused
from tff_keyboard_fleet.wire.plan import Codec, SecureSums
from tff_keyboard_fleet.wire.secure_sums.device import SEALED_BYTES
from tff_keyboard_fleet.wire.secure_sums.device import Device as SumDevice
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid
from tff_keyboard_fleet.wire.secure_sums.messages import Advert, Confirmations, Question, Settings

SUMS = SecureSums(clip_norm=1.0, step=2.0**-20, bits=32, degree=6, threshold=4)


class Server:
    """A server of one secure round, which may be killed between any two requests."""

    def __init__(self, folder, size=5, **round_settings):
        round_settings = {
            "goal": 10,
            "max_seats": 10,
            "min_reports": 7,
            "deadline_seconds": 600,
            **round_settings,
        }
        self.round_settings = RoundSettings(
            separation=1, sums=secure_steps.settings(SUMS, size), **round_settings
        )
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
        """Starts a process, however the previous one ended."""
        self.store = SecureRoundStore(self.folder, self.round_settings, lambda: self.time)
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
        actual = Device(lambda *request: self.app(*request), number, clock=lambda: self.time)
        self.blobs.show(self.plan.sha256)
        return actual

    def uploads(self, count=10, after=lambda: None):
        """Returns devices with seats, and their deltas."""
        actual, deltas = [], []
        for number in range(count):
            device = self.device(number)
            task = device.check_in(self.plan.sha256).task
            rng = np.random.default_rng(number)
            deltas.append(rng.uniform(-0.2, 0.2, self.plan.parameters).astype(np.float32))
            actual.append(masked_upload(device, task, self.plan, deltas[-1], after))
        return actual, deltas

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


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_sum_excludes_devices_that_dropped_out_before_reporting(server, steps):
    uploads, deltas = server.uploads()
    gone = dict(zip(uploads[:2], [_Stopping(upload, steps) for upload in uploads[:2]], strict=True))
    assert not settle([*gone.values(), *uploads[2:]], server.wait)
    there = deltas if steps >= 3 else deltas[2:]
    np.testing.assert_allclose(server.total(), np.sum(there, axis=0), atol=10 * SUMS.step)
    assert server.store.round.accepted == len(there)


class _Stopping:
    """An upload whose device disappears after a number of steps of the sum."""

    def __init__(self, upload, steps):
        self._upload, self._steps, self.assignment = upload, steps, upload.assignment
        self._client = upload._client
        upload._client = self

    def secure(self, round_num, step, message):
        self._gone(["advertise", "share", "-", "confirm", "unmask"].index(step))
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


class _Later:
    """A client that reveals no share until `asked` has an item."""

    def __init__(self, client, asked):
        self._client, self._asked, self.upload = client, asked, client.upload

    def secure(self, round_num, step, message):
        if step == "confirm" and message.signatures is not None and not self._asked:
            self._client.secure(round_num, step, message)
            return secure_steps.Next(retry_after_s=1)
        return self._client.secure(round_num, step, message)


def test_a_kill_after_each_request_changes_nothing(server):
    uploads, deltas = server.uploads(after=server.kill)
    assert not settle(uploads)
    server.kill()
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)


@pytest.mark.slow
def test_sigkill_in_every_request_changes_nothing(tmp_path):
    command = [
        sys.executable,
        "-m",
        "tff_keyboard_fleet.tests.round_server.test_secure_rounds",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 90


def main():
    """Sends each request three times: to a process killed in its transaction, after it, and not at
    all.

    It runs in its own Python, because it forks, and the Python of other tests has threads.
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
    """Runs the whole life of a server's process, for one request."""
    try:
        open_store()
        if place == "in":
            put = server.store._db.put
            server.store._db.put = lambda *row: (put(*row), os.kill(os.getpid(), signal.SIGKILL))
        actual = test.run_wsgi_app(server.app, environ)
        if place == "behind":
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(writing, pickle.dumps((actual[1], b"".join(actual[0]))))
    finally:
        os._exit(1)


def test_rollback_also_drops_the_sum_in_memory(server, monkeypatch):
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
        assert server.device(11).check_in(server.plan.sha256).task is not None
        server.kill()
    uploads = [masked_upload(*x) for x in _seated(server, range(11, 21))]
    assert not settle(uploads)
    server.total()
    server.store.release(1)
    names = [server.blobs.keep(weights.to_bytes(np.zeros(5))), server.plan.sha256]
    server.store.open_round(2, *names)
    assert server.device(0).check_in(server.plan.sha256).task is not None


@pytest.mark.parametrize("is_killed", [False, True])
def test_dealer_of_unreadable_shares_costs_one_attempt(server, is_killed):
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
    assert not settle([masked_upload(*x) for x in _seated(server, range(11, 21))])
    server.total()


def test_device_with_a_repeated_key_is_rejected_without_harm_to_others(server):
    (hostile, *others), deltas = server.uploads()
    key, context = hostile._device.advert.mask, hostile._device._settings.context
    twice = Advert.signed(key_of(0), context, channel=key, mask=key)
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
def test_each_seat_has_a_quarter_of_the_time_or_is_waited_for(server, seats):
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
    message = secure_steps.Confirm(assignment="\ud800")
    with pytest.raises(UnicodeEncodeError):
        server.store.step(1, b"anybody", b"", "confirm", message)
    assert kept is not None
    assert server.store._sum is kept


def _seated(server, values):
    """Returns arguments of the uploads of devices that check in."""
    for number in values:
        device = server.device(number)
        task = device.check_in(server.plan.sha256).task
        yield device, task, server.plan, np.zeros(server.plan.parameters)


def test_each_invalid_message_has_its_code(server):
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
    assert post("confirm", secure_steps.Confirm(assignment=upload.assignment)) == "done"


@pytest.mark.parametrize("key", ["channel", "mask"])
def test_key_of_small_order_is_rejected(server, key):
    (hostile, *others), deltas = server.uploads()
    keys = {"channel": b"\1" * 32, "mask": b"\1" * 32, key: bytes(32)}
    context = hostile._device._settings.context
    advert = secure_steps.advertise(hostile.assignment, Advert.signed(key_of(0), context, **keys))
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


def test_message_after_a_closed_step_is_late(server):
    uploads, _ = server.uploads()
    for upload in uploads[1:]:
        upload.go_on()
    server.time += 301
    with pytest.raises(Refused, match="late"):
        uploads[0].go_on()


def test_sum_with_other_terms_is_not_resumed(server):
    for upload in server.uploads(8)[0]:
        upload.go_on()
    server.time += 301
    assert server.store.round.state == rounds.RUNNING
    server.round_settings = dataclasses.replace(server.round_settings, min_reports=9)
    with pytest.raises(RunDirectoryError, match="min_report_fraction"):
        server.kill()


@pytest.mark.parametrize("field", ["plan", "model"])
def test_devices_with_another_plan_or_model_are_in_no_common_sum(server, field):
    """Otherwise a server could make all devices but one send zeros, and learn the vector of that
    one.
    """
    device = server.device(0)
    task = device.check_in(server.plan.sha256).task
    other = dataclasses.replace(task, **{field: "0" * 64})
    upload = masked_upload(device, other, server.plan, np.zeros(5))
    status, data = _advertise(server, upload)
    assert (status, code_of(data)) == (409, "bad_step")
    assert _advertise(server, masked_upload(device, task, server.plan, np.zeros(5)))[0] == 200


def test_another_plan_begins_a_sum_anew(server):
    uploads, _ = server.uploads(8)
    for upload in uploads:
        upload.go_on()
    server.plan = dataclasses.replace(server.plan, learning_rate=0.5)
    now = server.store.round
    server.store.open_round(1, now.model, server.blobs.keep(server.plan.to_bytes()))
    assert (server.store.round.attempt, server.store.round.state) == (2, rounds.SELECTING)
    assert set(settle(uploads).values()) == {"late"}
    server.kill()
    uploads, deltas = server.uploads()
    assert not settle(uploads)
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)


def test_the_messages_of_the_most_neighbours_fit_json():
    settings = Settings(label=b"one", size=1, bits=32, degree=100, threshold=51)
    actual = [SumDevice(settings, key_of(number)) for number in range(101)]
    shares = actual[0].share([each.advert for each in actual[1:]])
    signed = {each.name: bytes(64) for each in actual[1:]}
    header = messages.UploadHeader(
        assignment="a" * 64,
        weight=1.0,
        loss=0.0,
        codec=messages.MASKED,
        shape=[10**9],
        included=secure_steps.in_hex(signed),
    )
    confirmations = Confirmations(device=actual[0].name, signatures=signed)
    written = [
        header,
        secure_steps.question(Question(reported=signed, dropped=frozenset())),
        secure_steps.confirm("a" * 64, confirmations),
        secure_steps.confirmed(signed),
        secure_steps.share("a" * 64, shares),
        secure_steps.envelopes(shares.envelopes),
        secure_steps.neighbours([each.advert for each in actual[1:]]),
    ]
    assert max(len(messages.encode(each)) for each in written) <= messages.LONGEST_JSON


def test_a_share_that_was_not_dealt_is_refused(server):
    uploads, deltas = server.uploads()
    client = uploads[0]._client
    honest = client.secure

    def secure(round_num, step, message):
        if step == "unmask":
            asked.append(step)
            false = dict.fromkeys(message.shares, "ab" * 33)
            message = dataclasses.replace(message, shares=false)
        return honest(round_num, step, message)

    asked = []
    client.secure = secure
    for upload in uploads[1:]:  # they reveal after it: the sum is not over before
        upload._client = _Later(upload._client, asked)
    assert settle(uploads) == {uploads[0].assignment: "bad_step"}
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)


@pytest.mark.parametrize("forged", [{}, None, "other", "not hex"])
def test_an_upload_without_its_signatures_is_refused(server, forged):
    uploads, deltas = server.uploads()
    client = uploads[0]._client
    honest = client.upload

    def upload(round_num, body):
        header, payload = messages.unpack_upload(body)
        included = forged
        if isinstance(forged, str):
            (first, _one), (_, two), *_ = header.included.items()
            included = header.included | {first: two if forged == "other" else forged}
        header = dataclasses.replace(header, included=included)
        return honest(round_num, messages.pack_upload(header, payload))

    client.upload = upload
    assert settle(uploads, server.wait) == {uploads[0].assignment: "bad_step"}
    np.testing.assert_allclose(server.total(), np.sum(deltas[1:], axis=0), atol=10 * SUMS.step)


@pytest.mark.parametrize("is_forged", [False, True])
def test_invalid_confirmation_only_affects_its_sender(server, is_forged):
    uploads, deltas = server.uploads()
    client = uploads[0]._client
    honest = client.secure

    def secure(round_num, step, message):
        if step == "confirm" and message.signatures:
            (first, _), (second, two), *_ = message.signatures.items()
            signatures = message.signatures | {first: two} if is_forged else {second: two}
            message = dataclasses.replace(message, signatures=signatures)
        return honest(round_num, step, message)

    client.secure = secure
    assert settle(uploads, server.wait) == {uploads[0].assignment: "bad_step"}
    np.testing.assert_allclose(server.total(), np.sum(deltas, axis=0), atol=10 * SUMS.step)


def test_confirmations_are_given_once_there_are_enough(server):
    uploads, _ = server.uploads()
    messages_of = {}
    for upload in uploads:
        honest, name = upload._client.secure, upload._device.name

        def secure(round_num, step, message, honest=honest, name=name):
            if step == "confirm" and message.signatures:
                messages_of[name] = message
                raise ConnectionError
            return honest(round_num, step, message)

        upload._client.secure = secure
    for _ in range(5):
        for upload in uploads:
            with contextlib.suppress(ConnectionError):
                upload.go_on()
    assert len(messages_of) == 10
    first = uploads[0]._device
    near = [number for number, x in enumerate(uploads) if x._device.name in first._received]
    for number in (0, *near[:3]):
        assert _posting(server, number)("confirm", uploads[number]._confirm) == "wait"
    other = dataclasses.replace(uploads[0]._confirm, signatures={})
    assert _posting(server, 0)("confirm", other) == "replay"
    _posting(server, near[3])("confirm", uploads[near[3]]._confirm)
    server.kill()
    assert _posting(server, 0)("confirm", uploads[0]._confirm) == "done"


def test_surplus_device_is_rejected_before_it_sends_its_vector(tmp_path):
    with contextlib.closing(Server(tmp_path, goal=8)) as server:
        uploads, deltas = server.uploads()
        slow = uploads[-1]
        sent = []
        slow._client.upload = lambda *body: sent.append(body)
        for upload in uploads:  # the last one shares at once: it closes the step before
            upload.go_on()
        refused = settle(uploads[:-1], server.wait)
        with pytest.raises(Refused, match="surplus"):
            slow.go_on()
        assert not sent
        assert list(refused.values()) == ["surplus"]
        there = [x for upload, x in zip(uploads, deltas, strict=True) if upload.accepted]
        assert len(there) == 8
        np.testing.assert_allclose(server.total(), np.sum(there, axis=0), atol=8 * SUMS.step)


def test_masked_uploads_on_disk_look_uniform(tmp_path):
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
    """Returns the same device after a restart, with other keys."""
    return type(upload._device)(upload._device._settings, key_of(0))


def _posting(server, number):
    def post(step, message):
        path = f"/v1/rounds/1/secure/{step}"
        status, data = server.device(number).send("POST", path, messages.encode(message))
        if status != 200:
            return code_of(data)
        actual = messages.decode(secure_steps.Next, data)
        return "wait" if actual.retry_after_s else "done"

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
