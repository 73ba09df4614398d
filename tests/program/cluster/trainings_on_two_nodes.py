"""Trainings on two nodes against trainings here; `test_two_nodes.py` runs this in a namespace."""

import contextlib
import csv
import dataclasses
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.support import fakes
from tests.support.cluster import cluster_fakes
from tests.support.cluster.cluster_fakes import ROOT, signal_if_there
from tests.support.cluster.cluster_faults import Faults, leftovers
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.training.central.train_central import train_central
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
    train_federated(fakes.tiny_config(store, "execution.sub_rounds=3"), path)
    return path


def test_a_training_has_the_same_bits(cluster, store, run_here, tmp_path):
    config = fakes.tiny_config(store, "execution.sub_rounds=3", *ON_NODES)
    train_federated(config, tmp_path / "run")
    assert digests(tmp_path / "run") == digests(run_here)
    with (tmp_path / "run" / "node_timings.csv").open() as file:
        rows = list(csv.DictReader(file))
    # Three parts a round; the evaluations of rounds 2 and 3 have parts, too.
    done = [int(row["round"]) for row in rows if row["outcome"] == "done"]
    assert [done.count(round_num) for round_num in (1, 2, 3)] == [3, 6, 6]


@pytest.mark.slow
def test_a_training_may_move(cluster, store, run_here, tmp_path):
    """Begun here, gone on on the cluster; the record says how many parts there are."""
    two = fakes.tiny_config(store, "execution.sub_rounds=3", "train.rounds=2")
    train_federated(two, tmp_path / "run")
    train_federated(fakes.tiny_config(store, *ON_NODES), tmp_path / "run")
    assert digests(tmp_path / "run") == digests(run_here)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_training_with_fifty_faults_has_the_same_bits(cluster, store, tmp_path, monkeypatch):
    """One in every round and evaluation; kind, moment and victim are drawn by seed."""
    wanted = int(os.environ.get("FAULTS", "50"))
    seed = os.environ.get("FAULT_SEED", "1")
    longer = ("execution.sub_rounds=6", f"train.rounds={wanted}", "evaluation.every=10")
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
    start = len(list(pathlib.Path("/dev/shm").iterdir()))
    patient = "execution.cluster.max_losses=1000"
    train_federated(fakes.tiny_config(store, *longer, *ON_NODES, patient), tmp_path / "run")
    print(f"seed {seed}: {dict(faults.happened)}")
    assert faults.happened.total() == wanted
    assert digests(tmp_path / "run") == digests(tmp_path / "here")
    assert leftovers() == []
    assert len(list(pathlib.Path("/dev/shm").iterdir())) <= start + 3  # of one more node


@pytest.mark.slow
def test_rehearsal_has_the_same_bits(cluster, store, tmp_path):
    """General messages are drawn on the nodes, and both populations are evaluated."""
    method = (
        "fine_tuning.method.name=rehearsal",
        f"fine_tuning.general_store={store}",
        "execution.sub_rounds=3",
    )
    train_federated(fakes.tiny_config(store, *method), tmp_path / "here")
    train_federated(fakes.tiny_config(store, *method, *ON_NODES), tmp_path / "run")
    assert digests(tmp_path / "run") == digests(tmp_path / "here")


@pytest.mark.slow
def test_an_evaluation_has_the_same_digits(cluster, store, run_here, monkeypatch):
    monkeypatch.setattr(predictor_evaluation, "_POSITIONS_AT_ONCE", 100)
    here = run_evaluation.evaluate_run(run_here, "held_out")
    with evaluation_on_nodes.on_nodes(cluster_fakes.ADDRESS) as elsewhere:
        there = run_evaluation.evaluate_run(run_here, "held_out", elsewhere=elsewhere)
    assert dataclasses.replace(there, seconds=0).to_json() == (
        dataclasses.replace(here, seconds=0).to_json()
    )


@pytest.mark.slow
def test_a_server_trains_on_a_node(cluster, store, tmp_path, monkeypatch):
    """`train-server`; its node's actor is killed, and round 2 begins again on a new one."""
    own = ("client.batch_size=4", "central.optimizer=adam")
    train_central(fakes.tiny_config(store, *own), tmp_path / "here")
    run_job, killed = RayEngine.run, []

    def run(engine, job):
        if len(engine.place_names()) and job.items == [2] and not killed:
            (place,) = engine.place_names()  # one node, though there are two
            killed.append(place)
            signal_if_there(max(cluster_fakes.named("ray::NodeServer")), signal.SIGKILL)
        return run_job(engine, job)

    monkeypatch.setattr(RayEngine, "run", run)
    train_central(fakes.tiny_config(store, *own, *ON_NODES), tmp_path / "run")
    assert len(killed) == 1
    assert digests(tmp_path / "run") == digests(tmp_path / "here")
    assert leftovers() == []


STUDY = """
question = "Does the seed matter on a server?"
seeds = [1, 2]
control = "server"

[[arms]]
name = "server"
task = "train-server"
config = "{config}"
"""


@pytest.mark.slow
def test_a_study_of_servers_has_a_node_for_each(cluster, store, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY.format(config=ROOT / "configs" / "demo.toml"))
    overrides = [*fakes.TINY, f"data.store={store}", *ON_NODES[:2], "evaluation.clients=2"]
    command = [
        sys.executable,
        "-m",
        "tasks",
        "study",
        str(tmp_path / "study.toml"),
        "--jobs=2",
        f"--workdir={tmp_path / 'work'}",
        *(f"--set={override}" for override in overrides),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    nodes = []
    for seed in (1, 2):
        run = tmp_path / "work" / f"server_seed{seed}"
        config = fakes.tiny_config(store, "evaluation.clients=2", f"train.seed={seed}")
        train_central(config, tmp_path / f"here{seed}")
        assert digests(run) == digests(tmp_path / f"here{seed}")
        with (run / "node_timings.csv").open() as file:
            nodes.append({row["node"] for row in csv.DictReader(file)})
    assert [len(each) for each in nodes] == [1, 1]
    assert nodes[0] != nodes[1]
    assert leftovers() == []


def wait_for(condition, seconds=900.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_driver_that_is_stopped_leaves_nothing_and_goes_on(
    cluster, store, run_here, tmp_path, number
):
    overrides = [*fakes.TINY, f"data.store={store}", "execution.sub_rounds=3", *ON_NODES]
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
