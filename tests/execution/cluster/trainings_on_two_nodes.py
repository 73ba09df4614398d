"""Trainings on two nodes against local trainings; `test_two_nodes.py` runs this in a namespace."""

import contextlib
import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.support import fakes
from tests.support.cluster import cluster_fakes
from tests.support.cluster.cluster_fakes import ROOT
from tests.support.cluster.cluster_faults import Faults, leftovers
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts import counter
from tff_keyboard.execution.cluster.ray_engine import RayEngine
from tff_keyboard.training.federated import train_federated
from tff_keyboard.training.on_cluster import evaluation_on_nodes

ON_NODES = (
    "execution.engine=ray",
    "execution.cluster.wait_seconds=600",
    "execution.cluster.min_nodes=2",
)


def digests(run):
    weights = np.load(run / "model" / "weights.npz")
    arrays = {name: hashlib.sha256(weights[name].tobytes()).hexdigest() for name in weights.files}
    return arrays, (run / "metrics.jsonl").read_text()


@pytest.fixture(scope="module")
def run_here(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "here"
    train_federated(fakes.tiny_config(store), path)
    return path


def test_a_training_has_the_same_bits(cluster, store, run_here, tmp_path):
    config = fakes.tiny_config(store, *ON_NODES)
    train_federated(config, tmp_path / "run")
    assert digests(tmp_path / "run") == digests(run_here)


@pytest.mark.slow
def test_training_may_move_to_the_cluster(cluster, store, run_here, tmp_path):
    """Started here, continued on the cluster."""
    two = fakes.tiny_config(store, "train.rounds=2")
    train_federated(two, tmp_path / "run")
    train_federated(fakes.tiny_config(store, *ON_NODES), tmp_path / "run")
    assert digests(tmp_path / "run") == digests(run_here)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_training_with_faults_has_the_same_bits(cluster, store, tmp_path, monkeypatch):
    """One fault in every round and evaluation; its kind, moment and victim are drawn by seed."""
    wanted = int(os.environ.get("FAULTS", "12"))
    seed = os.environ.get("FAULT_SEED", "1")
    longer = (f"train.rounds={wanted}", "evaluation.every=10")
    train_federated(fakes.tiny_config(store, *longer), tmp_path / "here")
    faults = Faults(cluster, seed)
    run_job = RayEngine.run

    def run(engine, job):
        moment = faults.random.randrange(max(1, len(job.items) - 1))
        with contextlib.closing(run_job(engine, job)) as results:
            for done, result in enumerate(results):
                if done == moment and faults.happened.total() < wanted:
                    faults.happen()
                yield result
        faults.end()

    monkeypatch.setattr(RayEngine, "run", run)
    patient = "execution.cluster.max_losses=1000"
    train_federated(fakes.tiny_config(store, *longer, *ON_NODES, patient), tmp_path / "run")
    print(f"seed {seed}: {dict(faults.happened)}")
    assert faults.happened.total() == wanted
    assert digests(tmp_path / "run") == digests(tmp_path / "here")
    assert leftovers() == []


@pytest.mark.slow
def test_rehearsal_has_the_same_bits(cluster, store, tmp_path):
    """General messages are drawn on the nodes, and both populations are evaluated."""
    method = (
        "fine_tuning.method.type=rehearsal",
        f"fine_tuning.general_store={store}",
    )
    train_federated(fakes.tiny_config(store, *method), tmp_path / "here")
    train_federated(fakes.tiny_config(store, *method, *ON_NODES), tmp_path / "run")
    assert digests(tmp_path / "run") == digests(tmp_path / "here")


@pytest.mark.slow
def test_an_evaluation_has_the_same_digits(cluster, store, run_here, monkeypatch):
    monkeypatch.setattr(counter, "_POSITIONS_AT_ONCE", 100)
    here = run_evaluation.evaluate_run(run_here, "held_out")
    with evaluation_on_nodes.on_nodes(cluster_fakes.ADDRESS) as elsewhere:
        there = run_evaluation.evaluate_run(run_here, "held_out", elsewhere=elsewhere)
    assert dataclasses.replace(there, seconds=0).to_json() == (
        dataclasses.replace(here, seconds=0).to_json()
    )


def wait_for(condition, seconds=900.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_stopped_driver_leaves_nothing_and_can_resume(cluster, store, run_here, tmp_path, number):
    overrides = [*fakes.TINY, f"data.store={store}", *ON_NODES]
    command = [
        sys.executable,
        "-m",
        "tasks",
        "train",
        "--config=configs/demo.toml",
        f"--workdir={tmp_path / 'run'}",
        *(f"--set={override}" for override in overrides),
    ]

    def start():
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)

    driver = start()
    rows = tmp_path / "run" / "metrics.jsonl"
    wait_for(lambda: driver.poll() is not None or (rows.exists() and rows.read_text()))
    driver.send_signal(number)
    code = driver.wait(300)
    assert code in ((-9,) if number == signal.SIGKILL else (0, 128 + number))
    assert leftovers() == []
    assert start().wait(900) == 0
    assert digests(tmp_path / "run") == digests(run_here)
