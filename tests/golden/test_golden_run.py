"""What version 0.2.0 left on disk is read, evaluated, resumed and reported as 0.2.0 would.

`0.2.0/` is what `make.py` of that version wrote: a store of synthetic typists, `finished`, a
private run of four rounds with its evaluation, and `stopped`, what a kill after two of them leaves.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest

from tasks.evaluate import evaluate as evaluate_task
from tasks.evaluate import report as report_task
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.metrics.metric_table import HOST_SUMS, METRICS
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.storage.run_directory import RunDirectory

GOLDEN = pathlib.Path(__file__).parent / "0.2.0"


@pytest.fixture(name="data_root")
def _data_root(tmp_path, monkeypatch):
    """A copy, in the current directory, as the config names its store `store`."""
    for name in ("store", "finished", "stopped"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights_of(run: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(RunDirectory(run).weights) as arrays:
        return dict(arrays)


@pytest.mark.slow
def test_everything_can_be_read(data_root):
    run = RunDirectory.open("finished")
    assert run.environment()["packages"]["tff-keyboard"] == "0.2.0"
    assert [row["round"] for row in run.rows()] == [1, 2, 3, 4]
    config = config_lib.load_of_run(run.config_path)
    assert (config.model.units, config.train.clients_per_round) == (12, 3)
    model, vocabulary = load_model("finished")
    store = ClientStore("store")
    assert store.vocabulary == vocabulary
    assert store.card == run.data_card()
    for variable, weight in zip(
        model.trainable_variables, weights_of(data_root / "finished").values(), strict=True
    ):
        np.testing.assert_array_equal(variable.numpy(), weight)
    header, rounds = read_ledger(run.privacy_ledger)
    assert (header.mechanism.name, len(header.mechanism.decays), len(rounds)) == ("blt", 2, 4)


@pytest.mark.slow
def test_evaluates_to_the_same_digits_and_is_reported(data_root):
    (kept,) = (data_root / "finished").glob("evaluation_*.json")
    expected = json.loads(kept.read_text())
    kept.unlink()
    assert cli.launch(evaluate_task, ["finished"]) == cli.OK
    found = json.loads(kept.read_text())
    for name in METRICS:
        assert found["metrics"][name] == pytest.approx(expected["metrics"][name], rel=1e-5), name
    for name in HOST_SUMS:
        assert found["sums"][name] == pytest.approx(expected["sums"][name], rel=1e-5), name
    assert cli.launch(report_task, ["finished"]) == cli.OK
    page = (data_root / "finished" / "report.html").read_text()
    assert "SIMULATION" in page  # the statement, from the ledger


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_end_of_the_whole_one(data_root):
    from tff_keyboard.training.federated import train_federated

    wanted = config_lib.load_of_run(data_root / "finished" / "config.toml")
    train_federated(wanted, data_root / "stopped")
    for name, weight in weights_of(
        data_root / "finished"
    ).items():  # other machines round otherwise
        np.testing.assert_allclose(weights_of(data_root / "stopped")[name], weight, atol=1e-5)
    ledgers = [
        read_ledger(data_root / run / "privacy_ledger.jsonl") for run in ("finished", "stopped")
    ]
    assert ledgers[0] == ledgers[1]
