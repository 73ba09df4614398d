"""The tasks `serve-rounds` and `fleet`: flags, and a private run with devices to its statement."""

import contextlib
import json
import threading

import numpy as np
import pytest

from tasks.privacy import privacy
from tests.support.fakes import TINY
from tff_keyboard.command_line import cli
from tff_keyboard.storage.errors import ConfigError, UsageError
from tff_keyboard_fleet.commands import fleet, serve_rounds
from tff_keyboard_fleet.tests.support.devices import Device
from tff_keyboard_fleet.tests.support.served_fakes import free_port, over_http

CONFIG = "--config=configs/demo.toml"
SERVED = ("client.batch_size=1", "client.gradient_clip_norm=0", "data.long_messages=truncate")


def test_config_is_required():
    with pytest.raises(UsageError, match="requires --config"):
        serve_rounds.Options.parse("serve-rounds", ["--workdir=run"])


def test_unsupported_config_is_rejected_before_slow_imports(tmp_path):
    options = serve_rounds.Options.parse("serve-rounds", [CONFIG, f"--workdir={tmp_path}"])
    with pytest.raises(ConfigError, match=r"`client\.batch_size` = 8 cannot be used with devices"):
        serve_rounds.run(options)
    assert not list(tmp_path.iterdir())


def test_fleet_status_rejects_other_directories(tmp_path, capsys):
    assert cli.launch(fleet, [str(tmp_path)]) == 4
    assert "is not a run directory" in capsys.readouterr().err


def _devices(port, rounds, goal):
    """Takes part in every round."""
    app = over_http(port)
    devices = [Device(app, number) for number in range(goal * 2)]
    for round_num in range(1, rounds + 1):
        for device in devices[goal * (round_num % 2) :][:goal]:
            task = None
            while task is None or task.round != round_num:
                with contextlib.suppress(OSError, json.JSONDecodeError):
                    task = getattr(device.check_in(), "task", None)
                threading.Event().wait(0.2)
            size = device.model(task).shape
            delta = 0.01 * np.random.default_rng([round_num, device.number]).normal(size=size)
            assert device.upload(task, delta, loss=5.0).token


@pytest.mark.slow
def test_private_run_with_devices(store, tmp_path, capsys):
    run, port = tmp_path / "run", free_port()
    changes = (
        *TINY,
        *SERVED,
        "train.rounds=2",
        "train.over_selection=1.3",
        "train.min_separation_rounds=2",
        "aggregation.client_weighting=uniform",
        "aggregation.privacy={type='tree', noise_multiplier=0.5}",
        "devices.ram_gib=0",
    )
    devices = threading.Thread(target=_devices, args=[port, 2, 3], daemon=True)
    devices.start()
    flags = [f"--set={change}" for change in changes]
    flags += [CONFIG, f"--store={store}", f"--workdir={run}", f"--port={port}"]
    assert cli.launch(serve_rounds, flags) == 0
    devices.join(20)
    assert not devices.is_alive()
    said = capsys.readouterr().out
    assert f"Rounds: http://127.0.0.1:{port}" in said
    assert cli.launch(fleet, [str(run)]) == 0
    status = capsys.readouterr().out
    assert "2 of 2" in status
    assert cli.launch(privacy, [str(run)]) == 0
    claim = capsys.readouterr().out
    assert "one device key" in claim
    assert "a new key is a new device" in claim
    assert not (run / "client_digests").exists()
    assert (run / "model" / "weights.npz").exists()
    secret = [path for path in (run / "round_server").iterdir() if path.suffix in (".pem", ".key")]
    assert len(secret) == 1
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["clients_selected"] for row in rows] == [4, 4]
    assert not {"clients", "cohort", "attempts"} & rows[0].keys()  # withheld
