"""A training without a config follows the advice; a resumed run keeps its recorded config."""

import json
import pathlib

import pytest

from tasks.train import train
from tests.support.fakes import tiny_config
from tests.training.advice.test_advice import card
from tff_keyboard import config as config_lib
from tff_keyboard.host import machine_speed
from tff_keyboard.host.machine_speed import Machine
from tff_keyboard.storage.errors import RunDirectoryError, UsageError
from tff_keyboard.training import federated
from tff_keyboard.training.advice import advice
from tff_keyboard.training.advice.advice_text import sentence


@pytest.fixture
def trained(monkeypatch):
    """The configs that `train` trains."""
    configs = []
    monkeypatch.setattr(federated, "train_federated", lambda config, _: configs.append(config))
    return configs


def test_a_new_run_is_advised(tmp_path, monkeypatch, capsys, trained):
    monkeypatch.setattr(machine_speed, "measured", lambda: Machine(cores=3, gflops=50.0))
    whole = card() | {"format": 1, "file_bytes": {}, "store_sha256": "0"}
    (tmp_path / "data_card.json").write_text(json.dumps(whole))
    train.run(train.Options(workdir=tmp_path / "run", store=tmp_path, set=("train.seed=7",)))
    actual = advice.advise(whole, str(tmp_path), ["train.seed=7"])
    assert trained == [actual.config]
    assert sentence(actual, Machine(cores=3, gflops=50.0)) in capsys.readouterr().out


def test_a_run_goes_on_with_what_it_recorded_however_its_store_is_spelled(
    store, tmp_path, capsys, trained
):
    config = tiny_config(store, "train.seed=7")
    (tmp_path / "config.toml").write_text(config_lib.dump(config))
    for same in (None, store, store / ".." / store.name):
        train.run(train.Options(workdir=tmp_path, store=same))
        assert trained.pop() == config
        assert f"{tmp_path}: resumes with the config of its first start." in capsys.readouterr().out
    train.run(train.Options(workdir=tmp_path, store=store, set=("train.rounds=9",)))
    assert trained.pop().train.rounds == 9
    with pytest.raises(
        RunDirectoryError, match=f"started with `data.store` = {store}, not with /x"
    ):
        train.run(train.Options(workdir=tmp_path, store=pathlib.Path("/x")))


def test_a_new_run_requires_a_store_or_a_config(tmp_path):
    with pytest.raises(UsageError, match="--store=FOLDER"):
        train.run(train.Options(workdir=tmp_path / "run"))
