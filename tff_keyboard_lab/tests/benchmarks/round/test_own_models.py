"""A miniature of the benchmark of own models: every way ends with the same weights."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tff_keyboard_lab.benchmarks.round import own_models
from tff_keyboard_lab.benchmarks.round.round_sizes import Size


def run(benchmark, *arguments):
    """Runs a benchmark in a process of its own, because it sets TensorFlow's threads."""
    command = [sys.executable, "-m", f"tff_keyboard_lab.benchmarks.round.{benchmark}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow  # compiles two models in five ways, and starts TFF's server
def test_a_miniature(tmp_path):
    sizes = ["--vocabulary=60", "--units=6", "--embedding=4", "--clients=2", "--repeats=1"]
    models = ["--models", "linear", "cifg_autodiff", "--sizes", "1"]
    out = run("own_models", *sizes, *models, f"--out={tmp_path / 'own.json'}")
    content = json.loads((tmp_path / "own.json").read_text())
    assert set(content["models"]) == {"linear", "cifg_autodiff"}
    for result in content["models"].values():
        assert set(result["1"]["seconds"]) == set(own_models.WAYS)
        assert max(result["1"]["differences"].values()) < own_models.TOLERANCE
        assert result["1"]["clients"] == 2
    assert "| linear | 1 |" in out


def test_ratio_to_stock_at_its_best():
    medians = {"stock": 3.0, "stock_iterator": 1.0, "local": 0.5, "local_iterator": 0.5}
    rows = own_models.table({"gru": {"13": {"median_seconds": medians | {"ours": 0.25}}}})
    assert rows.splitlines()[-1] == "| gru | 13 | 3.000 | 1.000 | 0.500 | 0.500 | 0.250 | 4.0 |"


def test_table_of_other_frameworks():
    medians = {"stock": 3.0, "ours": 0.25, "pfl": 2.0, "jax_2": 0.5}
    rows = own_models.table_of_peers({"13": {"median_seconds": medians}}).splitlines()
    assert rows[0] == "| messages | ours | pfl | jax_2 | best other over ours |"
    assert rows[-1] == "| 13 | 0.250 | 2.000 | 0.500 | 2.0 |"
    assert own_models.table_of_peers({"13": {"median_seconds": {"ours": 1.0}}}) == ""


def test_random_clients_have_all_messages():
    clients = own_models.random_clients(Size("irc", 3, 13, 8), 20, seed=1)
    assert [[len(batch) for batch in client] for client in clients] == [[8, 5]] * 3
    assert not np.array_equal(clients[0][0], clients[1][0])


@pytest.mark.slow
def test_the_step_by_automatic_differentiation_agrees(tmp_path):
    shape = ["--batches=1", "--batch-size=2", "--longest=4", "--repeats=1"]
    run("step", "--autodiff", *shape, f"--out={tmp_path / 'step.json'}")
    content = json.loads((tmp_path / "step.json").read_text())
    assert content["losses_agree"] < 1e-5
    assert content["mixed_lengths"]["packed_over_autodiff"] > 0
