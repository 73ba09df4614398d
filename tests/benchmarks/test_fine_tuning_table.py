"""The table of fine-tuning: its numbers by hand, and one pass over tiny runs."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks import fine_tuning_table
from tff_keyboard import config as config_lib
from tff_keyboard.config.data_config import DataConfig
from tff_keyboard.data.store import prepare
from tff_keyboard.evaluation.metric_table import HOST_SUMS
from tff_keyboard.training.federated import train_federated

DATA = DataConfig(
    synthetic_typists=20,
    synthetic_messages=8,
    vocabulary_size=80,
    validation_fraction=0.2,
    held_out_fraction=0.2,
)


def sums(people, seed, nats):
    rng = np.random.default_rng(seed)
    values = {name: rng.integers(1, 5, people) for name in HOST_SUMS}
    values |= {"tokens": np.full(people, 100), "nll": np.full(people, 100 * nats)}
    values["characters"] = np.full(people, 50)
    values["typed_free"] = rng.integers(10, 40, people)
    return values


def test_summary_by_hand():
    judged = {
        "general model": {"general": sums(5, 1, 4.0), "user": sums(6, 2, 6.0)},
        "plain": {"general": sums(5, 3, 5.0), "user": sums(6, 4, 5.0)},
        "kept": {"general": sums(5, 5, 4.5), "user": sums(6, 6, 5.5)},
    }
    rows = fine_tuning_table.summarise(judged, {}, "general model", "plain")
    general, plain, kept = rows
    assert kept["average_perplexity"] == pytest.approx((np.exp(4.5) + np.exp(5.5)) / 2)
    assert kept["to_control"]["general"]["perplexity"]["value"] == pytest.approx(np.exp(-0.5))
    user = {name: part["user"] for name, part in judged.items()}
    saved = {name: 1 - part["typed_free"].sum() / 300 for name, part in user.items()}
    assert plain["metrics"]["user"]["kss"]["value"] == pytest.approx(saved["plain"])
    gain = kept["to_general"]["user"]["kss"]["value"]
    assert gain == pytest.approx(saved["kept"] - saved["general model"])
    assert "to_general" not in general
    assert "to_control" not in plain
    lines = fine_tuning_table.markdown(rows).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert f"{(np.exp(4.5) + np.exp(5.5)) / 2:.1f}" in lines[-1]


@pytest.mark.slow
def test_trains_judges_and_resumes(tmp_path, capsys):
    prepare.prepare(DATA, tmp_path / "users")
    vocabulary = str(tmp_path / "users" / "vocabulary.txt")
    prepare.prepare(
        dataclasses.replace(DATA, seed=5, vocabulary_path=vocabulary), tmp_path / "general"
    )
    tiny = [
        "model.units=8",
        "model.embedding_size=6",
        "train.rounds=1",
        "train.clients_per_round=2",
    ]
    base = config_lib.loads("", [*tiny, f"data.store={tmp_path / 'general'}"])
    train_federated(base, tmp_path / "base")
    (tmp_path / "retraining.toml").write_text("")
    (tmp_path / "lwf.toml").write_text('[fine_tuning.method]\nname = "lwf"\n')
    command = [
        *(str(tmp_path / f"{name}.toml") for name in ("lwf", "retraining")),
        f"--general={tmp_path / 'base'}",
        "--control=retraining",
        f"--workdir={tmp_path / 'runs'}",
        f"--out={tmp_path / 'table.json'}",
        *(f"--set={word}" for word in tiny),
        f"--set=data.store={tmp_path / 'users'}",
        f"--set=fine_tuning.general_store={tmp_path / 'general'}",
    ]
    assert fine_tuning_table.main(command) == 0
    first = json.loads((tmp_path / "table.json").read_text())
    assert [row["config"] for row in first["rows"]] == ["general model", "retraining", "lwf"]
    trained = (tmp_path / "runs" / "lwf" / "metrics.jsonl").stat().st_mtime
    assert fine_tuning_table.main(command) == 0
    assert json.loads((tmp_path / "table.json").read_text())["rows"] == first["rows"]
    assert (tmp_path / "runs" / "lwf" / "metrics.jsonl").stat().st_mtime == trained
    assert "| `lwf` |" in capsys.readouterr().out
