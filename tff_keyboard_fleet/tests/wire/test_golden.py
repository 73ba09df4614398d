"""Requests and answers of one round, byte for byte: `golden/exchanges.json`, for other devices.

# writes the file anew, after a change of the protocol
python -m tff_keyboard_fleet.tests.wire.test_golden
"""

import contextlib
import dataclasses
import json
import pathlib
import random
import secrets
import sys
import tempfile

import numpy as np
import pytest
from werkzeug import test

from tff_keyboard.storage import typed_json
from tff_keyboard_fleet.round_server.app import Population, RoundApplication
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.tests.support import devices
from tff_keyboard_fleet.tests.support.devices import key_of
from tff_keyboard_fleet.wire import keys, messages, weights
from tff_keyboard_fleet.wire.messages import CheckIn, UploadHeader
from tff_keyboard_fleet.wire.plan import Conditions, Plan

FILE = pathlib.Path(__file__).parent / "golden" / "exchanges.json"
NOW = 1_800_000_000
MODEL = weights.to_bytes(np.array([0.5, -1.0, 2.0], np.float32))
PLAN = dataclasses.replace(
    devices.PLAN,
    vocabulary="a" * 64,
    graph="b" * 64,
    max_messages=400,
    conditions=Conditions(locale="en_US"),
)


class Recorder:
    """A server with a fixed clock and fixed randomness, and the messages sent to it."""

    def __init__(self, folder, plan=PLAN, kept=RoundStore, **round_settings):
        self.now, self.plan = float(NOW), plan
        round_settings = {
            "goal": 1,
            "max_seats": 2,
            "min_reports": 1,
            "deadline_seconds": 600,
            "separation": 2,
        } | round_settings
        self.store = kept(folder, RoundSettings(**round_settings), lambda: self.now)
        blobs = Blobs(folder / "blobs")
        self.model, named = blobs.keep(MODEL), blobs.keep(plan.to_bytes())
        for name in (self.model, named):
            blobs.show(name)
        population = Population(
            name="keyboard", run=self.store.run_id, parameters=3, codec=plan.codec.name
        )
        app = RoundApplication(self.store, blobs, population, key_of("server"), lambda: self.now)
        self.client, self.exchanges = test.Client(app), []
        self.store.open_round(1, self.model, named)

    def say(self, why, method, path, body=b"", *, device=None, **headers):
        """Sends a request as the device does, and returns the JSON of its answer."""
        if device is not None:
            headers = keys.sign_request(key_of(device), method, path, body, self.now) | headers
        return self.replay(why, method, path, body, headers)

    def replay(self, why, method, path, body, headers):
        answer = self.client.open(path, method=method, data=body, headers=headers)
        shown = ("Retry-After", "Content-Range")
        kept = {name: answer.headers[name] for name in shown if name in answer.headers}
        data = answer.get_data()
        self.exchanges.append(
            {
                "why": why,
                "request": {"method": method, "path": path, "headers": headers, "hex": body.hex()},
                "answer": {"status": answer.status_code, "headers": kept, "hex": data.hex()},
            }
        )
        return json.loads(data) if data[:1] == b"{" else None

    def upload(self, why, device, assignment, round_num=1, delta=(1.0, 0.0, -0.5), **changes):
        fields = {
            "assignment": assignment,
            "weight": 7.0,
            "loss": 2.5,
            "codec": messages.RAW,
            "shape": [len(delta)],
        }
        payload = weights.to_bytes(np.array(delta, np.float32))
        body = messages.pack_upload(UploadHeader(**fields | changes), payload)
        return self.say(why, "PUT", f"/v1/rounds/{round_num}/upload", body, device=device)

    def check_in(self, why, device, **changes):
        fields = {"protocol": 1, "population": "keyboard", "plan": self.plan.sha256, "token": None}
        body = messages.encode(CheckIn(**fields | changes))
        return self.say(why, "POST", "/v1/check-in", body, device=device)


def play(recorder):
    """Plays a round of two devices, a and b, with refusals."""
    recorder.say("the plan, by which a device decides whether it may come", "GET", "/v1/plan")
    recorder.check_in("another plan was evaluated", "a", plan="0" * 64)
    recorder.check_in("a token that the server never gave", "a", token="run.1.1." + "00" * 64)
    recorder.check_in("another population", "a", population="nobody")
    task = recorder.check_in("a seat", "a")["task"]
    other = recorder.check_in("a seat for another device", "b")["task"]
    recorder.check_in("no seat is left", "c")
    path = f"/v1/models/{recorder.model}"
    recorder.say("the weights to begin with", "GET", path)
    recorder.say("the rest of them, after a cut", "GET", path, Range="bytes=5-")
    recorder.say("bytes that nobody released", "GET", f"/v1/models/{'c' * 64}")
    seat = task["assignment"]
    recorder.upload("too few numbers", "a", seat, delta=(1.0, 0.0))
    recorder.upload("no number", "a", seat, delta=(1.0, 0.0, float("nan")))
    recorder.upload("another codec than the plan's", "a", seat, codec="zip")
    recorder.upload("the seat of another device", "b", seat)
    recorder.upload("a round that was not", "a", seat, round_num=2)
    recorder.upload("accepted", "a", seat)
    recorder.upload("the same again, as its answer got lost", "a", seat)
    recorder.upload("another upload from the same seat", "a", seat, weight=8.0)
    recorder.upload("the round has enough", "b", other["assignment"])
    token = messages.encode(
        CheckIn(protocol=1, population="keyboard", plan=PLAN.sha256, token=None)
    )
    signed = keys.sign_request(key_of("b"), "POST", "/v1/check-in", token, NOW)
    recorder.say(
        "the signature of another device", "POST", "/v1/check-in", token,
        **signed | {keys.DEVICE_KEY: keys.public_hex(key_of("a"))},
    )  # fmt: skip
    old = keys.sign_request(key_of("b"), "POST", "/v1/check-in", token, NOW - 301)
    recorder.say("a clock that is off", "POST", "/v1/check-in", token, **old)
    recorder.say("no JSON", "POST", "/v1/check-in", b"{", device="a")
    recorder.say("too much", "POST", "/v1/check-in", b" " * 65_541, device="a")


@contextlib.contextmanager
def standing_still(patch, make=Recorder):
    """Returns a recorder with fixed randomness."""
    numbers = iter(range(1, 1000))
    patch.setattr(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
    patch.setattr(random, "random", lambda: 0.5)
    with tempfile.TemporaryDirectory() as folder:
        recorder = make(pathlib.Path(folder))
        try:
            yield recorder
        finally:
            recorder.store.close()


@pytest.fixture
def recorder(monkeypatch):
    with standing_still(monkeypatch) as recorder:
        yield recorder


def test_our_device_reproduces_the_messages(recorder):
    play(recorder)
    said_as_in(FILE, recorder)


def said_as_in(path, recorder):
    known = json.loads(path.read_text())["exchanges"]
    assert [found["why"] for found in recorder.exchanges] == [each["why"] for each in known]
    for found, expected in zip(recorder.exchanges, known, strict=True):
        assert _short(found) == expected, found["why"]


def test_the_file_alone_is_enough_for_another_device(recorder):
    answered_as_in(FILE, recorder)


def answered_as_in(path, recorder):
    """Checks that recorded requests have the same answers."""
    for each in json.loads(path.read_text())["exchanges"]:
        asked = each["request"]
        body = b" " * asked["spaces"] if "spaces" in asked else bytes.fromhex(asked["hex"])
        recorder.replay(each["why"], asked["method"], asked["path"], body, asked["headers"])
        assert _short(recorder.exchanges[-1])["answer"] == each["answer"], each["why"]


def test_every_refusal_is_there_or_cannot_be():
    actual = set()
    files = [FILE, FILE.with_name("secure_sum.json")]
    for each in [x for path in files for x in json.loads(path.read_text())["exchanges"]]:
        if each["answer"]["status"] >= 400:
            actual.add(json.loads(bytes.fromhex(each["answer"]["hex"]))["code"])
    elsewhere = {"busy", "bad_range", "too_soon", "not_found", "bad_method", "late", "not_finite"}
    elsewhere |= {"length_required"}  # the server answers before the application
    assert actual | elsewhere >= set(messages.REFUSALS)
    assert "not_finite" in actual


def test_the_plan_is_read_back():
    first = json.loads(FILE.read_text())["exchanges"][0]
    assert Plan.from_bytes(bytes.fromhex(first["answer"]["hex"])) == PLAN


def _short(exchange):
    asked = dict(exchange["request"])
    if set(asked["hex"]) == {"2", "0"} and len(asked["hex"]) > 10_000:
        asked |= {"spaces": len(asked.pop("hex")) // 2}
    return exchange | {"request": asked}


def main():
    with pytest.MonkeyPatch.context() as patch, standing_still(patch) as recorder:
        play(recorder)
    write(FILE, "Requests and answers of a round", recorder, "abc")


def write(path, about, recorder, names, **facts):
    """Writes the file of exchanges, one a line."""
    content = {
        "about": f"{about}; bodies in hex. docs/fleet/protocol.md",
        "private keys of devices (never use them)": {
            name: key_of(name).private_bytes_raw().hex() for name in names
        },
        "server's public key": keys.public_hex(key_of("server")),
        "plan": typed_json.plain(recorder.plan),
        **facts,
    }
    exchanges = ",\n  ".join(json.dumps(_short(each)) for each in recorder.exchanges)
    head = "".join(f" {json.dumps(key)}: {json.dumps(fact)},\n" for key, fact in content.items())
    path.write_text(f'{{\n{head} "exchanges": [\n  {exchanges}\n ]\n}}\n')


if __name__ == "__main__":
    sys.exit(main())
