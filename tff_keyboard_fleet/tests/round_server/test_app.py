"""The application: a whole round, one code for each refusal, and invalid input."""

import contextlib
import dataclasses
import json

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.round_server import app as app_module
from tff_keyboard_fleet.round_server import limits
from tff_keyboard_fleet.round_server.app import Population, RoundApplication, delta_of
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.tests.support.devices import Device, code_of, key_of
from tff_keyboard_fleet.wire import keys, messages, model_patch, tokens, weights

PARAMETERS = 5
MODEL = weights.to_bytes(np.arange(PARAMETERS))
DELTA = np.ones(PARAMETERS, np.float32)
SERVER = key_of("server")
ROUND_SETTINGS = RoundSettings(
    goal=2, max_seats=3, min_reports=1, deadline_seconds=100, separation=2
)


class World:
    """A server whose store is on disk, a clock that tests set, and its devices."""

    def __init__(self, folder, round_settings=ROUND_SETTINGS):
        self.now = 1_800_000_000.0
        self.store = RoundStore(folder, round_settings, self.clock)
        self.blobs = Blobs(folder / "blobs")
        population = Population(
            name="keyboard", run=self.store.run_id, parameters=PARAMETERS, codec=messages.RAW
        )
        self.app = RoundApplication(self.store, self.blobs, population, SERVER, self.clock)

    def clock(self):
        return self.now

    def open_round(self, number):
        model, plan = self.blobs.keep(MODEL), self.blobs.keep(b'{"plan": 1}')
        for name in (model, plan):
            self.blobs.show(name)
        self.store.open_round(number, model, plan)

    def device(self, number):
        return Device(self.app, number, clock=self.clock)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    with contextlib.closing(world.store):
        world.open_round(1)
        yield world


def test_only_files_that_are_named_by_a_hash_are_removed(tmp_path):
    blobs = Blobs(tmp_path / "blobs")
    old, kept = blobs.keep(b"old"), blobs.keep(b"kept")
    delta, others = f"{old}.from.{kept}", {"chapter1.tex", "x.from.y", f"{old}.from.me", "a" * 63}
    for name in (delta, *others):
        (tmp_path / "blobs" / name).write_text("mine")
    blobs.keep_only({kept})
    assert {path.name for path in (tmp_path / "blobs").iterdir()} == {kept, *others}


def test_a_link_is_not_a_folder_of_blobs(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "blobs").symlink_to(tmp_path / "mine")
    with pytest.raises(ProgramError, match="is a link"):
        Blobs(tmp_path / "blobs")


def test_a_round(world):
    a, b, c, d = map(world.device, "abcd")
    tasks = [device.check_in().task for device in (a, b, c)]
    assert d.check_in().rejection.reason == "running"
    assert tasks[0].upload_before_s == 100
    np.testing.assert_array_equal(a.model(tasks[0]), np.arange(PARAMETERS))
    assert b.upload(tasks[1], 2 * DELTA, weight=3.0, loss=0.5).accepted == 1
    assert a.upload(tasks[0], DELTA).accepted == 2
    assert c.upload(tasks[2], DELTA) == "surplus"
    assert c.check_in().rejection.reason == "aggregating"
    first, second = world.store.uploads(1, 1)
    np.testing.assert_array_equal(delta_of(first, PARAMETERS), 2 * DELTA)
    assert (first.weight, first.loss, second.weight) == (3.0, 0.5, 1.0)


def test_token_enforces_separation_after_the_server_deleted_its_record(world):
    a, b, c, d = map(world.device, "abcd")
    for number, pair in [(1, (a, b)), (2, (c, d))]:
        for device in pair:
            assert device.upload(device.check_in().task, DELTA).accepted
        world.store.release(number)
        world.open_round(number + 1)
    assert a.check_in().task  # of round 1, separation 2
    assert c.check_in() == "too_soon"
    c.token = None  # hidden: its pseudonym is still known
    assert c.check_in() == "too_soon"
    c.token = d.token
    assert c.check_in() == "forged_token"
    b.token = tokens.sign(
        SERVER, keys.public_hex(b.key), tokens.Participation(world.store.run_id, 2, 1)
    )
    assert b.check_in() == "too_soon"  # by the token alone
    b.token = tokens.sign(SERVER, keys.public_hex(b.key), tokens.Participation("other", 3, 1))
    assert b.check_in().task  # of another run


def test_a_lost_answer_is_asked_for_again(world):
    a = world.device("a")
    task = a.check_in().task
    assert a.check_in().task == task
    first = a.upload(task, DELTA)
    assert a.upload(task, DELTA) == first
    assert a.upload(task, 2 * DELTA) == "replay"
    assert a.check_in() == "too_soon"


def test_only_the_top_of_a_round_uploads(tmp_path):
    world = World(
        tmp_path, dataclasses.replace(ROUND_SETTINGS, goal=3, max_seats=4, top=lambda m: -(-m // 2))
    )
    with contextlib.closing(world.store):
        world.open_round(1)
        a, b, c, d = map(world.device, "abcd")
        tasks = [device.check_in().task for device in (a, b, c, d)]
        assert a.upload(tasks[0], DELTA) == "surplus"  # it told no loss
        assert a.verdict(tasks[0], 10.0, 3.0) == "wait"
        assert b.verdict(tasks[1], 20.0, 1.0) == "wait"
        assert a.verdict(tasks[0], 10.0, 0.1) == "wait"  # what it told first counts
        assert c.verdict(tasks[2], 30.0, 2.0) == "yes"
        assert a.verdict(tasks[0], 10.0, 3.0) == "no"
        assert b.verdict(tasks[1], 20.0, 1.0) == "yes"
        assert d.verdict(tasks[3], 40.0, 0.0) == "no"  # it came after the decision
        assert a.upload(tasks[0], DELTA) == "surplus"
        assert c.upload(tasks[2], DELTA, weight=99.0, loss=0.0).accepted == 1
        assert b.verdict(tasks[2], 1.0, 1.0) == "unknown_round"
        assert b.upload(tasks[1], DELTA).accepted == 2
        actual = list(world.store.uploads(1, 1))
        assert [(upload.weight, upload.loss) for upload in actual] == [(30.0, 2.0), (20.0, 1.0)]
        assert world.store.told_only(1, 1, 1) == [(10.0, 3.0)]
        assert d.verdict(tasks[3], 40.0, 0.0) == "surplus"


def test_loss_is_sent_if_the_plan_has_the_phase(world):
    a = world.device("a")
    task = a.check_in().task
    assert a.verdict(task, 1.0, 1.0) == "wrong_plan"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"delta": DELTA[:4]}, "wrong_shape"),
        ({"delta": DELTA * np.nan}, "not_finite"),
        ({"delta": DELTA * np.inf}, "not_finite"),
        ({"weight": -1.0}, "not_finite"),
        ({"loss": -1.0}, "not_finite"),
        ({"weight": float("nan")}, "bad_json"),
        ({"codec": "zip"}, "bad_codec"),
        ({"codec": messages.QUANTISED}, "bad_codec"),
        ({"delta": np.zeros(50_000)}, "too_large"),
    ],
)
def test_a_bad_upload_has_one_code_and_leaves_the_seat(world, changes, code):
    a = world.device("a")
    task = a.check_in().task
    assert a.upload(task, **({"delta": DELTA} | changes)) == code
    assert a.upload(task, DELTA).accepted == 1


def test_an_upload_of_another_or_to_another_round_is_unknown(world):
    a, b = map(world.device, "ab")
    task = a.check_in().task
    assert b.upload(task, DELTA) == "unknown_round"
    other = messages.TaskAssignment(**(vars(task) | {"round": 2}))
    assert a.upload(other, DELTA) == "unknown_round"


def test_a_late_upload(world):
    a = world.device("a")
    task = a.check_in().task
    world.now += 100
    assert a.upload(task, DELTA) == "late"


def test_requests_with_an_invalid_signature_are_rejected(world):
    a, b = map(world.device, "ab")
    body = messages.encode(
        messages.CheckIn(protocol=1, population="keyboard", plan=a.plan_hash(), token=None)
    )
    theirs = {keys.DEVICE_KEY: keys.public_hex(b.key)}
    assert code_of(a.send("POST", "/v1/check-in", body, **theirs)[1]) == "bad_signature"
    stale = keys.sign_request(a.key, "POST", "/v1/check-in", body, world.now - 301)
    assert code_of(a.send("POST", "/v1/check-in", body, **stale)[1]) == "stale_time"
    status, data = a.send("POST", "/v1/check-in", body)
    assert status == 200
    assert json.loads(data)["task"]


def test_check_ins_of_another_plan_population_or_protocol(world):
    a = world.device("a")
    assert a.check_in("0" * 64) == "wrong_plan"
    a.population = "another"
    assert a.check_in() == "wrong_plan"
    assert code_of(a.send("POST", "/v1/check-in", b"{}")[1]) == "bad_json"
    assert code_of(a.send("POST", "/v1/check-in", b"x" * 100_000)[1]) == "too_large"


def test_delta_of_newer_weights_is_fetched(world):
    old, newer = MODEL, weights.to_bytes(np.arange(PARAMETERS) + 1)
    names = {data: world.blobs.keep(data) for data in (old, newer, b"a graph")}
    device = world.device(1)
    path = f"/v1/models/{names[newer]}?from="
    assert code_of(device.get(path + names[old]).get_data()) == "wrong_model"  # not released
    for name in names.values():
        world.blobs.show(name)
    for _ in range(2):
        answer = device.get(path + names[old])
        assert model_patch.apply(old, answer.get_data()) == newer
        assert answer.headers["ETag"] != device.get(path).headers["ETag"]
    for other in ("", "0" * 64, "../run", names[newer], names[b"a graph"]):
        assert device.get(path + other).get_data() == newer
    world.blobs.keep_only({names[newer]})
    assert device.get(path + names[old]).get_data() == newer
    world.blobs.keep_only(set())
    assert not list((world.blobs._folder).iterdir())


def test_models_are_fetched_in_ranges_and_cached(world):
    a = world.device("a")
    path = f"/v1/models/{weights.sha256(MODEL)}"
    whole = a.get(path)
    assert whole.get_data() == MODEL
    assert (
        "immutable" in whole.headers["Cache-Control"] or "max-age" in whole.headers["Cache-Control"]
    )
    part = a.get(path, Range="bytes=8-11")
    assert (part.status_code, part.get_data()) == (206, MODEL[8:12])
    behind = a.get(path, Range="bytes=99-")
    assert (behind.status_code, code_of(behind.get_data())) == (416, "bad_range")
    assert a.get(path, **{"If-None-Match": whole.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"/v1/models/{'0' * 64}", 404, "wrong_model"),
        ("GET", "/v1/models/../../server_key.pem", 404, "not_found"),
        ("GET", "/v1/models/" + "%2e%2e%2f" * 8, 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/check-in", 405, "bad_method"),
        ("PUT", "/v1/rounds/-1/upload", 404, "not_found"),
        ("PUT", "/v1/rounds/9999999999/upload", 404, "not_found"),
        ("PUT", "/v1/rounds/1/upload", 401, "bad_signature"),
    ],
)
def test_addresses(world, method, path, status, code):
    answer = world.device("a").client.open(path, method=method)
    assert (answer.status_code, answer.get_json()["code"]) == (status, code)


def test_unreleased_models_cannot_be_fetched(world):
    hidden = world.blobs.keep(b"the next model")
    assert world.device("a").get(f"/v1/models/{hidden}").status_code == 404
    world.blobs.show(hidden)
    assert world.device("a").get(f"/v1/models/{hidden}").status_code == 200
    world.blobs.keep_only({hidden})
    assert world.device("a").get(f"/v1/models/{weights.sha256(MODEL)}").status_code == 404


def test_bug_answers_busy_and_logs_no_values(world, monkeypatch, capsys):
    def broken(*_):
        raise KeyError("what somebody typed")

    monkeypatch.setattr(app_module.messages, "unpack_upload", broken)
    status, data = world.device("a").send("PUT", "/v1/rounds/1/upload", b"typed")
    assert (status, code_of(data)) == (503, "busy")
    said = capsys.readouterr().err
    assert "KeyError at" in said
    assert "typed" not in said


def test_before_the_first_round(tmp_path):
    world = World(tmp_path)
    with contextlib.closing(world.store):
        answer = world.device("a").get("/v1/plan")
        assert (answer.status_code, answer.get_json()["code"]) == (503, "busy")
        assert int(answer.headers["Retry-After"]) >= 5
        assert world.device("a").check_in("0" * 64).rejection.reason == "starting"
        assert world.device("a").get(f"/v1/models/{'0' * 64}").status_code == 503
        world.open_round(1)
        assert world.device("a").get(f"/v1/models/{'0' * 64}").status_code == 404


def test_only_a_device_with_too_many_requests_is_slowed_down(world):
    a, b = map(world.device, "ab")
    actual = [a.check_in("0" * 64) for _ in range(limits.REQUESTS_A_MINUTE + 1)]
    assert actual[-2:] == ["wrong_plan", "busy"]
    assert b.check_in().task
    for _ in range(100):  # it does not listen, and is answered as often as others may ask
        world.now += 0.02
        actual.append(a.check_in("0" * 64))
    assert 3 <= actual[-100:].count("wrong_plan") <= 4  # two a second
    world.now += 1
    assert a.check_in().task
    world.now -= 3600  # the clock was wrong
    assert b.check_in("0" * 64) == "wrong_plan"
    assert a.check_in("0" * 64) == "wrong_plan"


def test_crowds_are_spread():
    pace = limits.PaceSteering(5.0, lambda: 0.0)
    few = max(pace.seconds() for _ in range(10))
    many = [pace.seconds() for _ in range(20_000)]
    assert 5 <= few <= 10
    assert 200 < max(many[-1000:]) <= 5 + 20_010 / limits.CHECK_INS_A_SECOND + 1


def test_a_crowd_before_the_clock_was_set_back_is_forgotten():
    times = [3600.0] * 1_000 + [0.0]
    pace = limits.PaceSteering(5.0, lambda: times.pop(0))
    assert [pace.seconds() for _ in range(1_001)][-1] <= 10


@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(
    body=strategies.binary(max_size=300),
    path=strategies.sampled_from(
        ["/v1/check-in", "/v1/rounds/1/upload", "/v1/rounds/0/upload", "/v1/rounds/1/loss"]
    ),
    header=strategies.sampled_from([keys.DEVICE_KEY, keys.DEVICE_TIME, keys.DEVICE_SIGNATURE, "X"]),
    value=strategies.text(strategies.characters(codec="latin-1", exclude_categories=["C"])),
)
def test_any_bytes_have_an_answer(world, body, path, header, value):
    world.now += 60  # for the rate
    method = "PUT" if path.endswith("upload") else "POST"
    status, data = world.device("fuzz").send(method, path, body, **{header: value})
    assert 400 <= status < 500
    assert code_of(data) in messages.REFUSALS
