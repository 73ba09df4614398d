"""A user's file of 60 lines, from a config to typing on the exported file, with real commands.

The file has a model, an aggregator and a client algorithm of the user.
"""

import io
import json
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from tasks import __main__ as console
from tasks.evaluate import compare, evaluate, report
from tasks.phone import export, verify
from tasks.train import train
from tests.support import own_keyboard
from tests.support.user_models import gru
from tff_keyboard.command_line import cli
from tff_keyboard.storage.run_directory import RunDirectory

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = """
[model]
type = "mine.py:Keyboard"
units = 12

[client]
type = "mine.py:fed_prox"
strength = 0.1
batch_size = 8
max_examples = 16

[aggregation.rule]
type = "mine.py:clipped_mean"
norm = 2.0

[train]
rounds = 12
clients_per_round = 3

[evaluation]
every = 4
"""
MODEL_ALONE = """
[model]
type = "mine.py:gru"
units = 6

[train]
rounds = 1
clients_per_round = 3
"""
CIFG = "[model]\ntype = 'cifg'\nunits = 8\nembedding_size = 6\n[train]\nrounds = 1\n"


def start(config, store, run):
    arguments = ["train", f"--config={config}", f"--store={store}", f"--workdir={run}"]
    return subprocess.Popen(
        [sys.executable, "-m", "tasks", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process):
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


def kill_after_round(process, run, rounds):
    metrics = RunDirectory(run).metrics_jsonl
    while not metrics.exists() or len(metrics.read_bytes().splitlines()) < rounds:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert not RunDirectory(run).model.exists()


def launch(task, *arguments):
    assert cli.launch(task, [str(argument) for argument in arguments]) == cli.OK


@pytest.mark.slow
def test_own_parts_are_trained_killed_resumed_compared_exported_and_typed_on(
    store, tmp_path, monkeypatch, capsys
):
    source = pathlib.Path(own_keyboard.__file__)
    assert len(source.read_text().splitlines()) <= 60
    shutil.copy(source, tmp_path / "mine.py")
    config = tmp_path / "mine.toml"
    config.write_text(CONFIG)
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    first, second = start(config, store, whole), start(config, store, killed)
    kill_after_round(second, killed, 6)
    resumed = start(config, store, killed)
    output = end(first)
    assert "warning" not in output
    assert "cuda" not in output  # TensorFlow's start-up messages
    assert "Resuming after round" in end(resumed)
    for name in ("model/weights.npz", "metrics.jsonl", "own_parts.json"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name
    parts = json.loads((whole / "own_parts.json").read_text())
    assert {*parts} == {"model.type", "client.type", "aggregation.rule.type"}

    launch(evaluate, killed)
    (tmp_path / "cifg.toml").write_text(CIFG)
    cifg = tmp_path / "cifg"
    launch(train, f"--config={tmp_path / 'cifg.toml'}", f"--store={store}", f"--workdir={cifg}")
    launch(compare, killed, cifg, f"hybrid:{killed}", f"--out={tmp_path / 'compared'}")
    launch(report, killed)
    launch(report, tmp_path / "compared")
    model = tmp_path / "mine.tflite"
    launch(export, killed, f"--out={model}", "--allow-little-text")
    launch(verify, model)
    launch(compare, model, killed, f"--store={store}")
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO("see you\t\n"))
    launch(console.module_of("play"), model, "--terminal")
    assert "8 keystrokes for" in capsys.readouterr().out

    arguments = [str(model), f"--store={store}", f"--out={tmp_path / 'personalised'}"]
    assert cli.launch(console.module_of("personalise"), arguments) == cli.BAD_INPUT
    assert "--trainable, which requires a CIFG" in capsys.readouterr().err
    assert not (tmp_path / "personalised").exists()
    trainable = [str(killed), f"--out={tmp_path / 'other.tflite'}", "--trainable"]
    assert cli.launch(export, trainable) == cli.BAD_INPUT
    assert "only the CIFG has signatures for training" in capsys.readouterr().err
    assert not (tmp_path / "other.tflite").exists()


@pytest.mark.slow
def test_a_model_without_step_reads_a_window_on_the_phone(store, tmp_path, monkeypatch, capsys):
    shutil.copy(pathlib.Path(gru.__code__.co_filename), tmp_path / "mine.py")
    (tmp_path / "mine.toml").write_text(MODEL_ALONE)
    run, model = tmp_path / "run", tmp_path / "mine.tflite"
    launch(train, f"--config={tmp_path / 'mine.toml'}", f"--store={store}", f"--workdir={run}")
    launch(export, run, f"--out={model}", "--allow-little-text", "--ngram=50kB")
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO("see you\t\n"))
    launch(console.module_of("play"), model, "--terminal")
    assert "8 keystrokes for" in capsys.readouterr().out
