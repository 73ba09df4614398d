"""What commit 481d7a5 left on disk is read and evaluated as that commit would have.

`481d7a5/` was made by that commit as its `how_it_was_made.txt` says: the demo's config, shrunk (24
synthetic typists, one worker, one thread); `finished` is a whole run, `stopped` the same one killed
after round 4 of 6, which is refused.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest

from tasks import cli
from tasks import evaluate as evaluate_task
from tasks import report as report_task
from tff_keyboard import config as config_lib
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.privacy.ledger import read_ledger
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory

GOLDEN = pathlib.Path(__file__).parent / "481d7a5"


@pytest.fixture(name="place")
def _place(tmp_path, monkeypatch):
    """A copy, in the current directory, as the config names its store `store`."""
    for name in ("store", "finished", "stopped"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def weights_of(run: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(RunDirectory(run).weights) as arrays:
        return dict(arrays)


def test_everything_can_be_read(place):
    run = RunDirectory.open("finished")
    assert run.environment()["commit"].startswith("481d7a5")
    assert [row["round"] for row in run.rows()] == [1, 2, 3, 4, 5, 6]
    config = config_lib.loads_of_run(run.config_text())
    assert (config.model.units, config.train.clients_per_round) == (12, 3)
    model, vocabulary = load_model("finished")
    store = ClientStore("store")
    assert store.vocabulary == vocabulary
    assert store.card == run.data_card()
    for variable, weight in zip(
        model.trainable_variables, weights_of(place / "finished").values(), strict=True
    ):
        np.testing.assert_array_equal(variable.numpy(), weight)


def test_a_ledger_of_format_1_is_refused():
    with pytest.raises(RunDirectoryError, match="was written by another version: format 4 here"):
        read_ledger(GOLDEN / "privacy_ledger.jsonl")


def test_evaluates_to_the_same_digits_and_is_reported(place, capsys):
    expected = json.loads((place / "finished" / "evaluation_held_out.json").read_text())
    (place / "finished" / "evaluation_held_out.json").unlink()
    assert cli.launch(evaluate_task, ["finished", "--max-length=20"]) == cli.OK  # the default then
    assert "11th to 20th" in capsys.readouterr().out  # by place in the message
    found = json.loads((place / "finished" / "evaluation_held_out.json").read_text())
    # The intervals are wider since: few people type much (`metrics/jackknife.py`).
    for name, interval in expected["metrics"].items():
        assert found["metrics"][name]["value"] == pytest.approx(interval["value"], rel=1e-5), name
    sums = [name for name in expected["clients"][0] if name in found["sums"]]
    assert {"tokens", "oov_tokens", "nll"} <= set(sums)
    store = ClientStore("store")  # people stood in the order of their ids then
    order = np.argsort([store.pseudonym(person) for person in store.client_ids("held_out")])
    for name in sums:
        per_person = [expected["clients"][place][name] for place in order]
        assert found["sums"][name] == pytest.approx(per_person, rel=1e-5), name
    assert cli.launch(report_task, ["finished", "--no-strips"]) == cli.OK
    page = (place / "finished" / "report.html").read_text()
    assert "0.59" in page  # % top-1 recall of the evaluation


@pytest.mark.slow
def test_a_stopped_run_of_weights_without_a_cap_is_refused(place):
    """It has no median of what people brought: going on with another one is another training."""
    from tff_keyboard.training.federated import train_federated

    run = RunDirectory.open("stopped")
    with pytest.raises(RunDirectoryError, match="`process/aggregator/median` is not there"):
        train_federated(config_lib.loads_of_run(run.config_text()), run.path)
