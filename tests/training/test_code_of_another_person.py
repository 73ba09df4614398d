"""A run directory of another person: no command runs code that only its config names."""

import shutil

import pytest
import tomli_w

from tasks.evaluate import compare as compare_task
from tasks.evaluate import evaluate as evaluate_task
from tasks.evaluate import report as report_task
from tasks.phone import export as export_task
from tasks.privacy import privacy as privacy_task
from tasks.train import train as train_task
from tasks.train import train_server as train_server_task
from tests.support.fakes import tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard.storage import toml, trusted_code
from tff_keyboard.training.federated import train_federated

KEYS = {
    "model": "type",
    "aggregation.rule": "type",
    "client": "type",
    "server": "type",
    "data": "source",
    "evaluation.metrics.evil": "type",
}
COMMANDS = {
    "train": (train_task, ["--workdir={run}"]),
    "train-server": (train_server_task, ["--like={run}", "--workdir={other}"]),
    "evaluate": (evaluate_task, ["{run}"]),
    "compare": (compare_task, ["{run}", "unigram", "--out={other}"]),
    "report": (report_task, ["{run}"]),
    "privacy": (privacy_task, ["{run}"]),
    "export": (export_task, ["{run}", "--out={other}.tflite", "--no-parity"]),
}


@pytest.fixture(name="run", scope="module")
def _run(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    train_federated(tiny_config(store, "train.rounds=1"), path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_no_command_runs_it(run, key, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(trusted_code, "_of_this_process", set())
    foreign = tmp_path / "foreign"
    shutil.copytree(run, foreign)
    marker = tmp_path / "ran"
    (foreign / "evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    values = toml.parse((foreign / "config.toml").read_text())
    table = values
    for name in key.split("."):
        table = table.setdefault(name, {})
    if key != "data":
        table.clear()
    table[KEYS[key]] = f"{foreign / 'evil.py'}:Evil"
    (foreign / "config.toml").write_text(tomli_w.dumps(values))
    for name, (task, arguments) in COMMANDS.items():
        words = [word.format(run=foreign, other=tmp_path / name) for word in arguments]
        cli.launch(task, words)
        assert not marker.exists(), name
        assert not (tmp_path / "state").exists(), name
