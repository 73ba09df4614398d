"""`train --store` without a config records the advised config and resumes with it."""

import pytest

from tasks.train import train
from tests.training.test_federated import assert_same_run
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.training.advice import advice

SMALL = (
    "--set=model.units=8",
    "--set=model.embedding_size=8",
    "--set=train.checkpoint_every=1",
    "--set=evaluation.every=2",
)


def launch(store, workdir, *options):
    return cli.launch(train, [f"--store={store}", f"--workdir={workdir}", *SMALL, *options])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--workdir={}/new"], 2, "Pass --store=FOLDER to train as `tff-keyboard advise"),
        (["--workdir={}/new", "--store={}/none"], 3, "there is no such folder"),
        (["--workdir={}/new", "--store={}"], 3, "is not a client store: it has no data_card.json"),
        (["--workdir={}/begun", "--store={}"], 4, "started with `data.store` = data/other, not"),
        (["--workdir={}/begun", "--set=train.ronds=2"], 2, "Did you mean `train.rounds`?"),
    ],
)
def test_untrainable_store_is_a_one_line_error(arguments, code, says, tmp_path, capsys):
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.toml").write_text('[data]\nstore = "data/other"\n')
    assert cli.launch(train, [word.format(tmp_path) for word in arguments]) == code
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert says in shown.err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_resumed_run_keeps_the_config_of_the_first_advice(store, tmp_path, capsys, monkeypatch):
    overrides = [word.removeprefix("--set=") for word in SMALL]
    advised = advice.advise(read_card(store), str(store), [*overrides, "train.rounds=4"])
    assert launch(store, tmp_path / "straight", "--set=train.rounds=4") == cli.OK
    shown = capsys.readouterr().out
    assert shown.count("No --config, so the run follows `tff-keyboard advise`.") == 1
    assert f"{advised.recipe}, the config for less than a million words" in shown
    assert "with 4 rounds of " in shown

    kept = config_lib.load_of_run(tmp_path / "straight" / "config.toml")
    assert (kept.train, kept.data, kept.client) == (
        advised.config.train,
        advised.config.data,
        advised.config.client,
    )
    assert kept.server.schedule.rounds == 51  # a round after the recipe's warm-up, of 50

    assert launch(store, tmp_path / "stopped", "--set=train.rounds=2") == cli.OK
    monkeypatch.setattr(advice, "LITTLE_TEXT", "configs/nus_sms.toml")  # without a schedule
    capsys.readouterr()
    again = store.parent / "." / store.name
    assert launch(again, tmp_path / "stopped", "--set=train.rounds=4") == cli.OK
    shown = capsys.readouterr().out
    assert "resumes with the config of its first start" in shown
    assert "Resuming after round 2 of 4" in shown
    assert config_lib.load_of_run(tmp_path / "stopped" / "config.toml") == kept
    assert_same_run(tmp_path / "straight", tmp_path / "stopped")
