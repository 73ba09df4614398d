"""A device with a small server: every step, every fault, a kill at every step."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import stat
import subprocess

import numpy as np
import pytest

from tff_keyboard.storage.errors import ExportError, ProgramError, UsageError
from tff_keyboard_fleet.device.cache import ClientCache, Example
from tff_keyboard_fleet.device.client import RoundClient, ServerUnavailable
from tff_keyboard_fleet.device.device import AGAIN_SECONDS, LATER_SECONDS, MAX_SECONDS, Device
from tff_keyboard_fleet.device.eligibility import DeviceFacts
from tff_keyboard_fleet.device.store import DeviceStore, SavedTask
from tff_keyboard_fleet.device.training_process import Done
from tff_keyboard_fleet.tests.device.fake_server import FakeServer
from tff_keyboard_fleet.wire import messages, model_patch, weights
from tff_keyboard_fleet.wire.messages import UploadHeader, Verdict
from tff_keyboard_fleet.wire.plan import Cache, Codec, Conditions, Plan

FACTS = DeviceFacts(
    ram_gib=4.0, charging=True, unmetered=True, idle=True, locale="en_US", app_version="1"
)
GRAPH = b"TFL3" * 9_000  # several pieces
DAY = 86_400.0
MODEL = weights.to_bytes(np.arange(50_000, dtype=np.float32))
NEWER = weights.to_bytes(np.arange(50_000, dtype=np.float32) * np.float32(1.001))
CONDITIONS = Conditions(min_examples=2)


def make_plan(**changes):
    fields = {f.name: None for f in dataclasses.fields(Plan) if f.default is dataclasses.MISSING}
    fields |= {
        "population": "english",
        "vocabulary": "f" * 64,
        "graph": weights.sha256(GRAPH),
        "parameters": 50_000,
        "learning_rate": 0.1,
        "epochs": 1,
        "max_messages": 2,
        "max_targets": 20,
        "weighting": "tokens",
        "codec": Codec(),
        "phases": ["upload"],
        "conditions": CONDITIONS,
        "cache": Cache(),
    }
    if "vocabulary_file" in fields:
        fields["vocabulary_file"] = "0" * 64
    return Plan(**fields | changes)


@pytest.fixture
def start_server():
    servers = []

    def start(**plan):
        blobs = {weights.sha256(data): data for data in (GRAPH, MODEL)}
        servers.append(FakeServer(make_plan(**plan), blobs))
        servers[-1].seat(weights.sha256(MODEL))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def server(start_server):
    return start_server()


class Phone:
    """A store with three messages, and a process that can start on it."""

    def __init__(self, directory, server):
        self.directory, self.server = directory, server
        self.now, self.said, self.jobs, self.waits = 1_000_000.0, [], [], []
        self.facts, self.model = FACTS, MODEL
        store = DeviceStore(directory)
        cache = ClientCache(store.cache)
        typed = [Example(text=f"secret {number}") for number in range(3)]
        cache.add(typed, now=self.now, max_per_category=99)
        cache.close()
        store.close()

    def attempt(self):
        """Runs one process: its start, an attempt, its end."""
        store = DeviceStore(self.directory)
        try:
            client = RoundClient(self.server.url, store.key(), sleep=self.waits.append)
            device = Device(
                store,
                client,
                lambda: self.facts,
                train=self.train,
                say=self.said.append,
                clock=lambda: self.now,
            )
            wait = device.attempt()
            client.close()
            return wait
        finally:
            self.state = store.state
            store.close()

    def train(self, job, seconds):
        self.jobs.append((job, seconds))
        assert pathlib.Path(job.graph).read_bytes() == GRAPH
        assert pathlib.Path(job.model).read_bytes() == self.model
        header = UploadHeader(
            assignment=job.assignment, weight=7.0, loss=2.5, codec=messages.RAW, shape=[50_000]
        )
        body = messages.pack_upload(header, MODEL)
        pathlib.Path(job.upload).write_bytes(body)
        return Done(weight=7.0, loss=2.5, steps=2, upload_bytes=len(body))

    def texts(self):
        cache = ClientCache(self.directory / "cache.db")
        found = [text for _, text in cache.newest(0)]
        cache.close()
        return found


@pytest.fixture
def phone(tmp_path, server):
    return Phone(tmp_path / "device", server)


def test_a_whole_participation(phone, server):
    assert phone.attempt() == 0
    assert len(server.uploads) == 1
    [check_in] = server.check_ins
    assert (check_in.plan, check_in.token) == (server.plan.sha256, None)
    assert phone.state.token == "token 1"
    assert phone.state.took_part_at == phone.now
    assert phone.state.task is None
    assert phone.texts() == ["secret 0"]  # what was used is gone
    kept = {path.name for path in (phone.directory / "blobs").iterdir()}
    assert kept == {weights.sha256(GRAPH), weights.sha256(MODEL)}
    assert not (phone.directory / "upload").exists()
    assert not any("secret" in sentence for sentence in phone.said)


def test_the_next_round_shows_the_token_and_fetches_only_what_is_new(phone, server):
    phone.attempt()
    cache = ClientCache(phone.directory / "cache.db")
    cache.add([Example(text="more")], now=phone.now, max_per_category=9)
    cache.close()
    server.seen.clear()
    server.seat(weights.sha256(MODEL), round_num=2)
    phone.attempt()
    assert server.check_ins[-1].token == "token 1"
    assert not [path for _, path, *_ in server.seen if "/models/" in path]
    assert len(server.uploads) == 2


@pytest.mark.parametrize(
    ("given", "requests"),
    [
        (model_patch.make(MODEL, NEWER), 1),
        (NEWER, 1),  # a server that does not know the older one
        (model_patch.make(MODEL, NEWER)[:-1], 2),
        (b"nothing", 2),
    ],
    ids=["what changed", "all", "damaged", "nonsense"],
)
def test_fetches_the_delta_of_newer_weights(given, requests, phone, server):
    phone.attempt()
    cache = ClientCache(phone.directory / "cache.db")
    cache.add([Example(text="more")], now=phone.now, max_per_category=9)
    cache.close()
    server.seen.clear()
    server.blobs[weights.sha256(NEWER)] = NEWER
    server.changes[f"from={weights.sha256(MODEL)}"] = given
    server.seat(weights.sha256(NEWER), round_num=2)
    phone.model = NEWER
    phone.attempt()
    assert len([path for _, path, *_ in server.seen if "/models/" in path]) == requests
    assert len(server.uploads) == 2
    kept = {path.name for path in (phone.directory / "blobs").iterdir()}
    assert kept == {weights.sha256(GRAPH), weights.sha256(NEWER)}


def test_only_the_owner_may_read_the_store(phone):
    phone.attempt()
    assert stat.S_IMODE(phone.directory.stat().st_mode) == 0o700
    for path in phone.directory.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_store_that_others_could_read_is_closed(tmp_path, server):
    (tmp_path / "device").mkdir(mode=0o755)
    Phone(tmp_path / "device", server)
    assert stat.S_IMODE((tmp_path / "device").stat().st_mode) == 0o700


def test_two_processes_do_not_share_a_store(phone):
    store = DeviceStore(phone.directory)
    with pytest.raises(ProgramError, match="another device process"):
        DeviceStore(phone.directory)
    store.close()


def test_ineligible_device_only_fetches_the_plan(phone, server):
    phone.facts = dataclasses.replace(FACTS, charging=False, idle=False)
    assert phone.attempt() == LATER_SECONDS
    assert phone.said == ["not eligible: charging, idle"]
    assert [path for _, path, *_ in server.seen] == ["/v1/plan"]


def test_old_text_does_not_count(phone, server):
    phone.now += 31 * 86_400
    phone.attempt()
    assert phone.said == ["not eligible: min_examples"]
    assert phone.texts() == []


def test_no_seat(phone, server):
    server.task = None
    assert phone.attempt() == 90
    phone.now += 30
    assert phone.attempt() == pytest.approx(60)
    assert len(server.check_ins) == 1  # it does not ask before it is time
    phone.now += 61
    phone.attempt()
    assert len(server.check_ins) == 2


def test_a_deadline_without_sense_is_at_most_a_day(phone, server):
    server.seat(server.task.model, seconds=2**62)
    phone.attempt()
    assert len(server.uploads) == 1
    phone.attempt()  # its state can still be read


def test_old_text_is_deleted_without_a_server(phone, server):
    server.task = None
    assert phone.attempt() == 90  # the plan's 30 days are known
    server.close()
    phone.now += 29 * DAY
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    assert len(phone.texts()) == 3
    phone.now += 2 * DAY
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    assert phone.texts() == []


class Killed(BaseException):
    """Stands for SIGKILL: no code of the product catches it."""


STEPS = ["save", "train", "upload", "delete", "keep_only"]


@pytest.mark.parametrize("when", ["before", "behind"])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_nothing_and_sends_one_upload(
    step, when, phone, server, monkeypatch
):
    owner = {
        "save": DeviceStore,
        "train": Phone,
        "upload": RoundClient,
        "delete": ClientCache,
        "keep_only": DeviceStore,
    }[step]
    sound = getattr(owner, step)
    calls = [0]
    for kill_at in range(1, 7):

        def killing(self, *args, at=kill_at, **kwargs):
            calls[0] += 1
            if calls[0] == at and when == "before":
                raise Killed
            found = sound(self, *args, **kwargs)
            if calls[0] == at:
                raise Killed
            return found

        calls[0] = 0
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, killing)
            try:
                phone.attempt()
                break  # the step does not come so often
            except Killed:
                pass
    if not server.uploads or phone.state.task:
        phone.attempt()
    assert len(server.uploads) == 1
    assert phone.texts() == ["secret 0"]
    assert phone.state.token == "token 1"


def test_a_download_goes_on_where_it_was_cut(phone, server):
    server.faults = [("/v1/models/", "cut"), ("/v1/models/", "cut")]
    phone.attempt()
    ranges = [(path[-64:], asked) for _, path, _, asked in server.seen if "/models/" in path]
    graph = weights.sha256(GRAPH)
    half = len(GRAPH) // 2
    assert ranges[0] == (graph, None)
    assert ranges[1] == (graph, f"bytes={half}-")
    assert int(ranges[2][1].removeprefix("bytes=")[:-1]) > half
    assert len(server.uploads) == 1


def test_a_download_goes_on_after_a_restart(phone, server):
    server.faults = [("/v1/models/", "cut")] + 6 * [("/v1/models/", "drop")]
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    server.faults.clear()
    server.seen.clear()
    phone.attempt()
    assert server.seen[0][3] == f"bytes={len(GRAPH) // 2}-"
    assert len(server.check_ins) == 1  # it kept its seat


@pytest.mark.parametrize("field", ["plan", "model", "graph"])
def test_a_server_that_names_a_path_gets_no_file(field, phone, server, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("../../precious", str(precious)):
        told = server.plan if field == "graph" else server.task
        object.__setattr__(told, field, name)  # as no server of ours could
        server.blobs |= {name: b"of the server", server.plan.sha256: server.plan.to_bytes()}
        assert phone.attempt() == LATER_SECONDS
        assert "must be a SHA-256" in phone.said[-1]
        phone.now += LATER_SECONDS
    assert precious.read_text() == "mine"
    assert not [path for _, path, *_ in server.seen if "precious" in path]


def test_a_store_removes_only_blobs_and_parts(phone):
    store, old, kept = DeviceStore(phone.directory), "a" * 64, "b" * 64
    others = {"chapter1.tex", "a" * 63, "notes.part", f"{old}-mine.part"}
    for name in (old, f"{old}.part", f"{old}-{kept}.part", kept, *others):
        (phone.directory / "blobs" / name).write_text("mine")
    store.keep_only([kept])
    assert {path.name for path in (phone.directory / "blobs").iterdir()} == {kept, *others}


@pytest.mark.parametrize("name", ["../key.pem", "/tmp/file", "a" * 63, "A" * 64])
def test_a_store_has_no_blob_of_another_name(name, phone):
    store = DeviceStore(phone.directory)
    for place in (store.blob, store.part, lambda name: store.part("a" * 64, name)):
        with pytest.raises(ProgramError, match="must be its SHA-256"):
            place(name)
    store.close()


def test_bytes_of_another_hash_are_not_used(phone, server):
    server.blobs[weights.sha256(GRAPH)] = b"TFL3 of somebody else"
    with pytest.raises(ProgramError, match="do not match their hash"):
        phone.attempt()
    assert not phone.jobs
    server.blobs[weights.sha256(GRAPH)] = GRAPH
    phone.attempt()
    assert len(server.uploads) == 1


def test_a_blob_that_was_damaged_on_the_disk_is_fetched_again(phone, server):
    phone.attempt()
    server.uploads.clear()
    server.task = dataclasses.replace(server.task, round=server.task.round + 1)
    (phone.directory / "blobs" / weights.sha256(MODEL)).write_bytes(b"damaged")
    cache = ClientCache(phone.directory / "cache.db")
    cache.add([Example(text="more")], now=phone.now, max_per_category=9)
    cache.close()
    with pytest.raises(ProgramError, match="downloaded again"):
        phone.attempt()
    phone.attempt()
    assert len(server.uploads) == 1


def test_an_upload_whose_answer_got_lost_is_sent_again(phone, server):
    server.lost_answers = 2
    phone.attempt()
    puts = [size for method, _, size, _ in server.seen if method == "PUT"]
    assert len(puts) == 3
    assert len(server.uploads) == 1
    assert phone.state.token == "token 1"


def test_busy_servers_are_asked_again_as_they_say(phone, server):
    server.faults = [("/v1/check-in", "busy"), ("/v1/check-in", "busy")]
    phone.attempt()
    assert len(server.uploads) == 1
    assert [7 <= wait <= 10.5 for wait in phone.waits] == [True, True]


YEAR = 365 * DAY


def test_a_wait_that_a_wrong_clock_noted_is_forgotten(phone, server):
    phone.now += YEAR
    assert phone.attempt() == LATER_SECONDS
    phone.now -= YEAR
    store = DeviceStore(phone.directory)
    with contextlib.closing(ClientCache(store.cache)) as cache:  # the clock deleted the text
        typed = [Example(text=f"new {number}") for number in range(3)]
        cache.add(typed, now=phone.now, max_per_category=99)
    assert store.state.not_before > phone.now + DAY
    store.close()
    phone.attempt()
    assert len(server.uploads) == 1


@pytest.mark.parametrize("seconds", [1.0, MAX_SECONDS])
def test_a_wait_that_is_possible_is_kept(seconds, phone, server):
    store = DeviceStore(phone.directory)
    store.change(not_before=phone.now + seconds)
    store.close()
    assert phone.attempt() == seconds
    assert not server.seen


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_seat_that_a_wrong_clock_noted_is_given_up(is_sent, phone, server):
    store = DeviceStore(phone.directory)
    digest = server.plan.sha256
    task = SavedTask(
        round=1,
        plan=digest,
        model=weights.sha256(MODEL),
        assignment="a",
        upload_before=phone.now + YEAR,
        sent=is_sent,
    )
    store.change(task=task)
    store.close()
    phone.attempt()
    assert phone.state.task is None
    assert len(server.uploads) == (0 if is_sent else 1)  # of a new seat
    assert ("round 1 closed before this device finished" in phone.said) == (not is_sent)


def test_a_part_in_the_future_counts_as_now(tmp_path, start_server):
    conditions = dataclasses.replace(CONDITIONS, min_days_between=2.0)
    server = start_server(conditions=conditions)
    phone = Phone(tmp_path / "device", server)
    store = DeviceStore(phone.directory)
    store.change(took_part_at=phone.now + YEAR)
    store.close()
    assert phone.attempt() == LATER_SECONDS
    assert phone.said[-1] == "not eligible: min_days_between"
    assert phone.state.took_part_at == phone.now
    phone.now += 2 * DAY
    phone.attempt()
    assert len(server.uploads) == 1


def test_a_clock_without_a_connection_does_not_change_the_last_part(phone, server):
    server.faults = [("/v1/plan", "drop")] * 6
    store = DeviceStore(phone.directory)
    store.change(took_part_at=phone.now)
    store.close()
    phone.now = 1000.0  # a new battery
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    assert phone.state.took_part_at == 1_000_000.0


def test_a_server_that_stays_away(phone, server):
    server.faults = [("/v1/plan", "drop")] * 6
    with pytest.raises(ServerUnavailable, match="no answer"):
        phone.attempt()
    assert len(phone.waits) == 5
    assert phone.waits[-1] > phone.waits[0]


@pytest.mark.parametrize("code", ["late", "surplus", "unknown_round", "wrong_model"])
def test_an_upload_that_is_not_taken_is_dropped_and_its_text_kept(code, phone, server):
    server.faults = [("/v1/rounds/", code)]
    assert phone.attempt() == 7
    assert phone.state.task is None
    assert phone.state.took_part_at is None
    assert len(phone.texts()) == 3
    assert not (phone.directory / "upload").exists()
    phone.now += 8
    server.seat(weights.sha256(MODEL), round_num=2)
    phone.attempt()
    assert len(server.uploads) == 1


def test_files_of_rounds_that_it_did_not_finish_do_not_fill_the_disk(phone, server):
    """A slow phone is late in every round, and each round has new weights."""
    sizes = []
    for number in range(1, 6):
        phone.model = weights.to_bytes(np.full(50_000, number, np.float32))
        digest = weights.sha256(phone.model)
        server.blobs[digest] = phone.model
        server.seat(digest, round_num=number)
        server.faults = [("/v1/rounds/", "late")]
        phone.attempt()
        phone.now += 8
        assert phone.state.task is None
        sizes.append(sum(path.stat().st_size for path in (phone.directory / "blobs").iterdir()))
    assert len(set(sizes)) == 1
    graphs = [path for _, path, *_ in server.seen if path.endswith(weights.sha256(GRAPH))]
    assert len(graphs) == 1


def test_a_clock_that_is_behind_for_one_attempt_deletes_no_text(phone, server):
    phone.now = 1_790_000_000.0
    cache = ClientCache(phone.directory / "cache.db")
    cache.add([Example(text="today")], now=phone.now, max_per_category=9)
    cache.close()
    server.faults = [("/v1/plan", "drop")] * 20
    phone.now = 1_000.0
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    phone.now = 1_790_000_000.0
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    assert phone.texts() == ["today"]


def test_a_token_that_the_server_does_not_know_is_left_out_at_once(phone, server):
    """The server has another key: that of another evaluation, for example."""
    phone.attempt()
    cache = ClientCache(phone.directory / "cache.db")
    cache.add([Example(text="more")], now=phone.now, max_per_category=9)
    cache.close()
    store = DeviceStore(phone.directory)
    store.change(evaluation_token="of another server")
    store.close()
    server.faults = [("/v1/check-in", "forged_token")]
    server.seen.clear()
    server.seat(weights.sha256(MODEL), round_num=2)
    phone.attempt()
    assert [path for _, path, *_ in server.seen].count("/v1/check-in") == 2
    assert server.check_ins[-1].token is None
    assert len(server.uploads) == 2
    assert phone.state.evaluation_token == "of another server"


def test_a_server_that_refuses_every_token_is_left_for_later(phone, server):
    phone.attempt()
    cache = ClientCache(phone.directory / "cache.db")
    cache.add([Example(text="more")], now=phone.now, max_per_category=9)
    cache.close()
    server.faults = [("/v1/check-in", "forged_token")] * 2
    assert phone.attempt() > 0
    assert phone.state.task is None
    assert len(server.uploads) == 1


def test_a_plan_that_is_another_by_now_is_fetched_at_once(phone, server):
    server.faults = [("/v1/check-in", "wrong_plan")]
    assert phone.attempt() == 0
    asked = [path for _, path, *_ in server.seen[:4]]
    assert asked == ["/v1/plan", "/v1/check-in"] * 2
    assert len(server.uploads) == 1


def test_a_round_that_closed_meanwhile_is_left(phone, server):
    server.faults = [("/v1/models/", "drop")] * 6
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    phone.now += 61
    server.seat(weights.sha256(MODEL), round_num=2)
    phone.attempt()
    assert any("closed" in sentence for sentence in phone.said)
    [body] = server.uploads
    assert messages.unpack_upload(body)[0].assignment == "seat 2"


@pytest.mark.parametrize("counted", [True, False])
def test_asks_after_the_deadline_whether_a_sent_upload_counted(counted, phone, server):
    server.lost_answers = 6 * counted
    server.faults = [] if counted else [("/v1/rounds/", "drop")] * 6 + [("/v1/rounds/", "late")]
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    phone.now += 61
    server.task = None
    assert phone.attempt() == (0 if counted else 7)
    assert len(server.uploads) == counted
    assert len(phone.texts()) == (1 if counted else 3)
    assert phone.state.token == ("token 1" if counted else None)
    assert phone.state.task is None


def test_an_upload_that_was_sent_is_not_made_anew(phone, server):
    server.lost_answers = 6
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    (phone.directory / "upload").unlink()
    assert phone.attempt() == LATER_SECONDS
    assert len(phone.jobs) == 1


def test_a_device_that_slept_through_its_round_does_not_train(phone, server, monkeypatch):
    sound = RoundClient.download

    def slept(self, path, part):
        phone.now += 40
        sound(self, path, part)

    monkeypatch.setattr(RoundClient, "download", slept)
    assert phone.attempt() == 1
    assert not phone.jobs
    assert "late" in phone.said[-1]


def test_training_that_fails_costs_the_seat_alone(phone, server, monkeypatch):
    def fails(self, job, seconds):
        raise ExportError("Training diverged")

    with monkeypatch.context() as patch:
        patch.setattr(Phone, "train", fails)
        assert phone.attempt() == LATER_SECONDS
    assert len(phone.texts()) == 3
    phone.now += LATER_SECONDS + 1
    phone.attempt()
    assert len(server.uploads) == 1


@pytest.mark.parametrize("change", [{"weighting": "mood"}, {"secure_sums": {"neighbours": 4.0}}])
def test_a_plan_that_it_does_not_know_is_not_followed(change, phone, start_server):
    phone.server = start_server(**change)
    assert phone.attempt() == LATER_SECONDS
    assert "cannot follow" in phone.said[0]
    assert not phone.server.check_ins


def test_a_plan_that_is_nested_too_deep_is_not_followed(phone, monkeypatch):
    monkeypatch.setattr(RoundClient, "newest_plan", lambda self: b"[" * 50_000)
    assert phone.attempt() == LATER_SECONDS
    assert "cannot follow" in phone.said[0]


@pytest.mark.parametrize(
    ("verdicts", "uploads"), [(["yes"], 1), (["no"], 0), (["wait", "yes"], 1), (["wait", "no"], 0)]
)
def test_the_loss_comes_first_where_a_plan_says_so(verdicts, uploads, tmp_path, start_server):
    server = start_server(phases=["loss", "upload"])
    phone = Phone(tmp_path / "two phases", server)
    server.verdicts = [Verdict(upload=word, retry_after_s=5) for word in verdicts]
    for _ in verdicts:
        phone.attempt()
        phone.now += 5
    assert len(server.uploads) == uploads
    assert len(phone.jobs) == 1  # it waited with what it had trained
    assert sum(path.endswith("/loss") for _, path, *_ in server.seen) == len(verdicts)


class Enough(Exception):
    pass


def test_loop_waits_as_asked_and_survives_temporary_errors(phone, server):
    server.task = None
    server.faults = [("/v1/plan", "drop")] * 6 + [("/v1/check-in", "wrong_plan")] * 2
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        phone.now += seconds
        if len(waits) == 3:
            raise Enough

    store = DeviceStore(phone.directory)
    client = RoundClient(server.url, store.key(), sleep=phone.waits.append)
    device = Device(
        store, client, lambda: FACTS, train=phone.train, say=phone.said.append,
        clock=lambda: phone.now,
    )  # fmt: skip
    with pytest.raises(Enough):
        device.run(sleep=sleep)
    store.close()
    assert waits == [AGAIN_SECONDS, 7, 90]
    assert "no answer" in phone.said[0]


@pytest.mark.parametrize("content", ["", "[]", '{"task": 3}', '{"token": null, "more": 1}'])
def test_a_damaged_state_is_named(content, phone):
    (phone.directory / "state.json").write_text(content)
    with pytest.raises(ProgramError, match=r"state\.json is damaged"):
        DeviceStore(phone.directory)


@pytest.mark.parametrize("url", ["http://example.org", "ftp://127.0.0.1", "127.0.0.1:80", "https:"])
def test_server_without_https_is_rejected(url, phone):
    store = DeviceStore(phone.directory)
    with pytest.raises(UsageError, match="--server"):
        RoundClient(url, store.key())
    store.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_server_certificate_is_checked(server, phone, tmp_path):
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-subj", "/CN=rounds"]
    files = ["-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, "-days", "825", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    url = server.use_tls(tmp_path / "tls.crt", tmp_path / "tls.key")
    store = DeviceStore(phone.directory)
    for ca in (tmp_path / "tls.crt", None):
        trusted = contextlib.nullcontext() if ca else pytest.raises(ProgramError, match="--ca=FILE")
        with contextlib.closing(RoundClient(url, store.key(), ca=ca)) as client, trusted:
            assert client.newest_plan() == server.plan.to_bytes()
    store.close()


def test_the_state_holds_no_text(phone, server):
    server.faults = [("/v1/rounds/", "drop")] * 6
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    state = json.loads((phone.directory / "state.json").read_text())
    assert state["task"]["used"] == [2, 3]
    assert "secret" not in json.dumps(state)


def add_text(phone):
    cache = ClientCache(phone.directory / "cache.db")
    cache.add([Example(text="more"), Example(text="and more")], now=phone.now, max_per_category=9)
    cache.close()


def test_a_round_is_never_taken_twice_whatever_the_server_forgot(phone, server):
    """As after the restore of a server's backup: it knows neither the upload nor its token."""
    server.seat(weights.sha256(MODEL), round_num=5)
    phone.attempt()
    assert len(server.uploads) == 1
    for round_num in (5, 4, 1):
        add_text(phone)
        store = DeviceStore(phone.directory)
        store.change(token=None, not_before=0.0)
        store.close()
        server.seat(weights.sha256(MODEL), round_num=round_num, seconds=60)
        assert phone.attempt() == 60
        assert phone.said[-1] == f"round {round_num} is too soon after this device's last part"
    assert len(server.uploads) == 1
    phone.now += 61
    server.seat(weights.sha256(MODEL), round_num=6)
    phone.attempt()
    assert len(server.uploads) == 2


@pytest.mark.parametrize("round_num, uploads", [(7, 1), (8, 2)])
def test_a_device_enforces_the_separation_of_its_plan(round_num, uploads, tmp_path, start_server):
    server = start_server(min_separation_rounds=3)
    phone = Phone(tmp_path / "device", server)
    server.seat(weights.sha256(MODEL), round_num=5)
    phone.attempt()
    add_text(phone)
    server.seat(weights.sha256(MODEL), round_num=round_num)
    phone.attempt()
    assert len(server.uploads) == uploads
    assert phone.state.first_rounds == {"english": 8 if uploads == 1 else 11}


def change(phone, **fields):
    store = DeviceStore(phone.directory)
    store.change(**fields)
    store.close()


def test_a_device_takes_part_in_the_population_of_its_first_seat_only(phone, server, start_server):
    """A server that renames its population does not get around the device's record."""
    server.seat(weights.sha256(MODEL), round_num=5)
    phone.attempt()
    add_text(phone)
    phone.server = start_server(population="german")
    assert phone.attempt() == LATER_SECONDS
    assert "is for the population 'german', but this device belongs to 'english'" in phone.said[-1]
    assert (phone.state.population, phone.state.first_rounds) == ("english", {"english": 6})
    change(phone, population="german", not_before=0.0)  # as --population does
    phone.attempt()
    assert phone.state.first_rounds == {"english": 6, "german": 2}


def test_a_device_of_an_earlier_version_keeps_its_population(phone, start_server):
    change(phone, first_rounds={"english": 6})
    phone.server = start_server(population="german")
    assert phone.attempt() == LATER_SECONDS
    assert not phone.server.uploads


def test_a_population_of_the_owners_choice_holds_from_the_start(phone, server):
    change(phone, population="german")
    assert phone.attempt() == LATER_SECONDS
    assert not server.uploads


@pytest.mark.parametrize("days, takes_part", [(0, False), (6, False), (7, True)])
def test_a_false_round_number_does_not_lock_a_device_out(phone, server, days, takes_part):
    """A population has at most one round a minute, and 1,000 rounds of slack."""
    phone.attempt()
    assert phone.state.first_rounds == {"english": 2}
    add_text(phone)
    phone.now += days * 86_400
    server.seat(weights.sha256(MODEL), round_num=2 + 1_000 + 7 * 24 * 60)
    phone.attempt()
    assert len(server.uploads) == 1 + takes_part
    assert ("cannot be right" in phone.said[-1]) == (not takes_part)


def test_no_round_number_is_above_the_largest(phone, server):
    server.seat(weights.sha256(MODEL), round_num=1_000_001)
    assert phone.attempt() == LATER_SECONDS
    assert not server.uploads
    assert phone.state.first_rounds == {}


def test_a_plan_with_an_endless_separation_is_not_followed(tmp_path, start_server):
    server = start_server(min_separation_rounds=10_001)
    phone = Phone(tmp_path / "device", server)
    assert phone.attempt() == LATER_SECONDS
    assert "minimum separation of 10001 rounds" in phone.said[-1]
    assert not server.uploads


def test_an_interrupted_upload_of_the_same_seat_is_sent_again(phone, server):
    server.faults = [("/v1/rounds/1/upload", "busy")] * 6
    with pytest.raises(ServerUnavailable):
        phone.attempt()
    assert phone.state.first_rounds == {"english": 2}
    phone.attempt()
    assert len(server.uploads) == 1


def test_the_state_of_an_earlier_version_is_read(tmp_path):
    store = DeviceStore(tmp_path)
    store.change(token="token 1")
    store.close()
    state = json.loads((tmp_path / "state.json").read_text())
    del state["first_rounds"]
    (tmp_path / "state.json").write_text(json.dumps(state))
    store = DeviceStore(tmp_path)
    assert (store.state.token, store.first_round("english")) == ("token 1", 1)
    store.close()


def test_a_plan_whose_conditions_were_not_checked_is_not_followed(phone, server):
    other = make_plan(conditions=Conditions(min_examples=99))
    server.blobs[other.sha256] = other.to_bytes()
    server.task = dataclasses.replace(server.task, plan=other.sha256)
    assert phone.attempt() == LATER_SECONDS
    assert not server.uploads
    assert "another plan" in phone.said[-1]
