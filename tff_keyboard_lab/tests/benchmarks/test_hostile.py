"""Attackers of the fleet against a server on a port: each gets its answer."""

import contextlib
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard_fleet.round_server.app import Population, RoundApplication
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import RoundSettings
from tff_keyboard_fleet.round_server.serving import RoundServer
from tff_keyboard_fleet.tests.wire.test_golden import PLAN
from tff_keyboard_fleet.wire import messages, weights
from tff_keyboard_fleet.wire.messages import UploadHeader
from tff_keyboard_lab.benchmarks.fleet import hostile


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    round_settings = RoundSettings(
        goal=50, max_seats=100, min_reports=1, deadline_seconds=600, separation=2
    )
    blobs = Blobs(folder / "blobs")
    plan, model = blobs.keep(PLAN.to_bytes()), blobs.keep(bytes(12))
    for name in (plan, model):
        blobs.show(name)
    with contextlib.closing(RoundStore(folder, round_settings, time.time)) as store:
        population = Population(name="keyboard", run=store.run_id, parameters=3, codec=messages.RAW)
        app = RoundApplication(store, blobs, population, Ed25519PrivateKey.generate())
        store.open_round(1, model, plan)
        server = RoundServer(app, "127.0.0.1", 0)
        server.start()
        yield hostile.Connection(f"http://127.0.0.1:{server.port}")
        server.stop()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "name",
    ["forgery", "wrong hash", "wrong shape", "not finite", "oversize", "replay", "garbage"],
)
def test_each_attack_has_its_code(name, seed, connection):
    header = UploadHeader(assignment="1" * 32, weight=1.0, loss=1.0, codec="float32", shape=[3])
    copies = [messages.pack_upload(header, weights.to_bytes([1.0, 2.0, 3.0]))]
    attacker = hostile.Attacker(connection, seed, copies)
    assert name in attacker.attacks()
    assert attacker.run(name) == []
    assert connection.wrong == []
    assert connection.statuses


def test_wrong_answer_to_an_attack_is_reported(connection):
    attacker = hostile.Attacker(connection, 1, [])
    attacker._wrong_hash = lambda: iter([("200", {"wrong_plan"})])
    assert attacker.run("wrong hash") == ["wrong hash: 200, not ['busy', 'wrong_plan']"]
