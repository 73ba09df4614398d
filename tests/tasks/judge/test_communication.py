"""The bytes that a run sent, against sums by hand."""

import json

import numpy as np
import pytest

from tasks import cli
from tasks.judge import communication as communication_task
from tff_keyboard.evaluation.results.communication import account

ROW = {"clients_selected": 4, "clients": 3, "bytes_down": 4 * 40 + 10, "bytes_up": 3 * 40}


def test_totals():
    rows = [{**ROW, "bytes_rehearsal": 10}, {**ROW, "clients": 1, "bytes_up": 40}]
    total = account(rows, parameters=10)
    assert (total.rounds, total.model_bytes, total.uploads_per_round) == (2, 40, 2.0)
    assert total.bytes_down == 340
    assert total.bytes_up == 160
    assert total.total_bytes == 500
    assert total.upload_bytes == 40
    assert total.rehearsal_bytes == pytest.approx(10 / 8)


def test_what_the_aggregator_measured_counts():
    """Compression and topK send less than whole models."""
    rows = [
        {**ROW, "aggregator/inner/uploaded_bytes": 30},
        {**ROW, "aggregator/x/uploaded_bytes": 120, "aggregator/bytes_not_uploaded": 40},
    ]
    assert account(rows, parameters=10).bytes_up == 30 + 80


def test_round_without_uploads():
    total = account([{**ROW, "clients": 0, "bytes_up": 0}], parameters=10)
    assert total.upload_bytes == 0


def test_rejects_runs_without_federated_rounds():
    with pytest.raises(ValueError, match="no rounds"):
        account([], parameters=10)
    with pytest.raises(ValueError, match="not a federated training"):
        account([{"tokens": 5}], parameters=10)


@pytest.fixture
def run(tmp_path):
    """Creates the parts of a run directory that the task reads."""
    path = tmp_path / "run"
    (path / "model").mkdir(parents=True)
    (path / "config.toml").write_text("")
    (path / "environment.json").write_text("{}")
    (path / "metrics.jsonl").write_text(json.dumps({"round": 1, **ROW}) + "\n")
    np.savez(path / "model" / "weights.npz", a=np.zeros([2, 4]), b=np.zeros(2))
    return path


def test_task_prints_and_writes(run, tmp_path, capsys):
    out = tmp_path / "out.json"
    communication_task.run(communication_task.Options(run_dirs=(run,), out=out))
    (row,) = json.loads(out.read_text())
    assert row["parameters"] == 10
    assert row["total_bytes"] == row["bytes_down"] + row["bytes_up"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:3] == ["run", "total", "GB"]
    assert printed[1].split()[:2] == ["run", f"{row['total_bytes'] / 1e9:.3f}"]
    assert printed[1].split()[4] == "1"
    assert printed[1].split()[-1] == "10"


def test_task_explains_what_is_missing(run, tmp_path, capsys):
    assert cli.launch(communication_task, []) == cli.USAGE
    assert cli.launch(communication_task, [str(tmp_path / "none")]) != cli.OK
    (run / "model" / "weights.npz").unlink()
    assert cli.launch(communication_task, [str(run)]) != cli.OK
    assert "not finished" in capsys.readouterr().err
