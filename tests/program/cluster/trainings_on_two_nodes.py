"""Trainings on two nodes against trainings here; `test_two_nodes.py` runs this in a namespace."""

import csv
import hashlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests import fakes
from tests.cluster_fakes import ROOT, named
from tff_keyboard.training.federated import train_federated

ON_NODES = (
    *("execution.engine=ray", "execution.cluster.wait_seconds=600"),
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


def wait_for(condition, seconds=300.0):
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
        *(sys.executable, "-m", "tasks", "train", "--config=configs/demo.toml"),
        *(f"--workdir={tmp_path / 'run'}", *(f"--set={override}" for override in overrides)),
    ]

    def start():
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)

    driver = start()
    rows = tmp_path / "run" / "metrics.jsonl"
    wait_for(lambda: driver.poll() is not None or (rows.exists() and rows.read_text()))
    driver.send_signal(number)
    code = driver.wait(60)
    assert code in ((-9,) if number == signal.SIGKILL else (0, 128 + number))
    wait_for(lambda: not named("ray::NodeServer") and not named("worker_binary"), 30)
    assert start().wait(600) == 0
    assert digests(tmp_path / "run") == digests(run_here)
