import json
import re
import subprocess
import sys

import pytest

from tests.support.console import ROOT, answers
from tff_keyboard.storage.errors import DataError, UsageError
from tff_keyboard_fleet.commands import device
from tff_keyboard_fleet.device.device import Device
from tff_keyboard_fleet.tests.device.fake_server import FakeServer
from tff_keyboard_fleet.tests.device.test_device import make_plan
from tff_keyboard_fleet.wire import keys
from tff_keyboard_fleet.wire.plan import Conditions

TYPED = {"text": "see you", "candidates": [["see", ["i", "see"]], ["you", ["you"]]]}


@pytest.fixture
def typed(tmp_path):
    path = tmp_path / "typed.jsonl"
    path.write_text(json.dumps(TYPED) + "\n" + json.dumps({"text": "ok", "category": "web"}) + "\n")
    return path


@pytest.fixture
def server():
    server = FakeServer(make_plan(conditions=Conditions(locale="de", min_examples=3)), {})
    yield server
    server.close()


def run(tmp_path, **options):
    device.run(device.Options(store=tmp_path / "device", **options))


def test_adds_typed_messages_and_prints_decoder_recall(tmp_path, typed, capsys):
    run(tmp_path, typed=typed, decoder_recall=True)
    added, recall = capsys.readouterr().out.splitlines()
    assert added == "Added 2 messages. The cache now has 2."
    assert recall == "decoder: top-1 50.00 %, top-3 100.00 % of 2 words"


def test_flags_are_the_facts(tmp_path, typed, server, capsys):
    run(tmp_path, typed=typed, server=server.url, once=True, charging=True)
    shown = capsys.readouterr().err
    (key,) = re.findall("public key ([0-9a-f]{64})$", shown, re.MULTILINE)
    assert key == keys.public_hex(keys.open_key(tmp_path / "device" / "key.pem"))
    assert "not eligible: unmetered, idle, locale, min_examples" in shown
    assert "see" not in shown


def test_a_file_of_facts_is_read_instead(tmp_path, typed, server, capsys):
    facts = {"ram_gib": 4, "charging": True, "unmetered": True, "idle": True, "locale": "de_AT"}
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(facts | {"app_version": "1"}))
    run(tmp_path, typed=typed, server=server.url, once=True, facts=path)
    assert "not eligible: min_examples" in capsys.readouterr().err
    path.write_text("{}")
    with pytest.raises(UsageError, match="does not have the state of a device"):
        run(tmp_path / "another", server=server.url, once=True, facts=path)


def test_known_devices_are_read_at_the_start(tmp_path, server, monkeypatch):
    path = tmp_path / "known"
    path.write_text("ab" * 32)
    seen = []
    monkeypatch.setattr(
        Device, "once", lambda self: seen.append((self._known, self._min_devices_in_sum))
    )
    run(tmp_path, server=server.url, once=True, known_devices=path, min_devices_in_sum=31)
    run(tmp_path, server=server.url, once=True)
    assert seen == [({b"\xab" * 32}, 31), (None, 1)]
    path.write_text("a phone")
    with pytest.raises(UsageError, match="line 1"):
        run(tmp_path, server=server.url, once=True, known_devices=path)


def test_nothing_to_do_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="--server"):
        run(tmp_path)


def test_invalid_message_line_is_one_line_error(tmp_path):
    (tmp_path / "typed.jsonl").write_text("secret\n")
    with pytest.raises(DataError, match="line 1") as error:
        run(tmp_path, typed=tmp_path / "typed.jsonl")
    assert "secret" not in str(error.value)


def test_errors_are_a_line(tmp_path):
    store = tmp_path / "device"
    [plain] = answers([["device", f"--store={store}", "--server=http://example.org", "--once"]])
    assert (plain.code, plain.stderr.count("\n")) == (2, 1)
    assert "https://HOST:PORT" in plain.stderr


def test_a_device_imports_neither_numpy_nor_tensorflow(tmp_path):
    """Only the training process imports them: a waiting device is small and starts quickly."""
    script = (
        "import sys; from tff_keyboard_fleet.commands import device;"
        "import tff_keyboard_fleet.device.device;"
        "found = {'numpy', 'tensorflow', 'werkzeug', 'ai_edge_litert'} & set(sys.modules);"
        "sys.exit(' '.join(found) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_population_of_the_owners_choice_is_recorded(tmp_path):
    typed = tmp_path / "typed.jsonl"
    typed.write_text('{"text": "see you", "category": "chat"}\n')
    for population in ("english", None):  # the second start keeps it
        device.run(device.Options(store=tmp_path / "device", typed=typed, population=population))
        state = json.loads((tmp_path / "device" / "state.json").read_text())
        assert state["population"] == "english"
