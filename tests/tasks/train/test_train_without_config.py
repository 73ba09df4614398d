"""A training without a config: advised once, then gone on with as recorded."""

import json
import pathlib

import pytest

from tasks.train.train import load_or_recommend
from tests.support.fakes import tiny_config
from tests.training.advice.test_advice import card
from tff_keyboard import config as config_lib
from tff_keyboard.host import machine_speed
from tff_keyboard.host.machine_speed import Machine
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.training.advice import advice
from tff_keyboard.training.advice.advice_text import sentence


def test_a_new_run_is_advised(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine_speed, "measured", lambda: Machine(cores=3, gflops=50.0))
    whole = card() | {"format": 1, "file_bytes": {}, "store_sha256": "0"}
    (tmp_path / "data_card.json").write_text(json.dumps(whole))
    config = load_or_recommend(tmp_path / "run", tmp_path, ["train.seed=7"])
    found = advice.advise(whole, str(tmp_path), ["train.seed=7"])
    assert config == found.config
    shown = capsys.readouterr().out
    assert shown.endswith(f"{sentence(found, Machine(cores=3, gflops=50.0))}\n")
    assert shown.count("\n") == 1


def test_a_run_goes_on_with_what_it_recorded_however_its_store_is_spelled(store, tmp_path, capsys):
    config = tiny_config(store, "train.seed=7")
    (tmp_path / "config.toml").write_text(config_lib.dump(config))
    for same in (None, store, store / ".." / store.name):
        assert load_or_recommend(tmp_path, same) == config
        assert (
            capsys.readouterr().out == f"{tmp_path}: resumes with the config of its first start.\n"
        )
    assert load_or_recommend(tmp_path, store, ["train.rounds=9"]).train.rounds == 9
    with pytest.raises(
        RunDirectoryError, match=f"started with `data.store` = {store}, not with /x"
    ):
        load_or_recommend(tmp_path, pathlib.Path("/x"))
