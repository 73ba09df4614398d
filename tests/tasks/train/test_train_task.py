"""`train --store` without a config: what is advised, recorded whole, gone on with as recorded."""

import pytest

from tasks import cli
from tasks.train import train
from tests.training.test_federated import assert_same_run
from tff_keyboard import config as config_lib
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.study.advice import advice

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
        (["--workdir={}/new"], 2, "Give --store=FOLDER, to train what `tff-keyboard advise"),
        (["--workdir={}/new", "--store={}/none"], 3, "there is no such folder"),
        (["--workdir={}/new", "--store={}"], 3, "is not a client store: no data_card.json"),
        (["--workdir={}/begun", "--store={}"], 4, "began with `data.store` = data/other, not"),
        (["--workdir={}/begun", "--set=train.ronds=2"], 2, "Did you mean `train.rounds`?"),
    ],
)
def test_what_cannot_be_trained_is_one_line(arguments, code, says, tmp_path, capsys):
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.toml").write_text('[data]\nstore = "data/other"\n')
    assert cli.launch(train, [word.format(tmp_path) for word in arguments]) == code
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert says in shown.err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_store_is_trained_as_advised_and_goes_on_so_whatever_is_advised_later(
    store, tmp_path, capsys, monkeypatch
):
    overrides = [word.removeprefix("--set=") for word in SMALL]
    advised = advice.advise(read_card(store), str(store), [*overrides, "train.rounds=4"])
    assert launch(store, tmp_path / "straight", "--set=train.rounds=4") == cli.OK
    shown = capsys.readouterr().out
    assert shown.count("No --config, so as `tff-keyboard advise` says.") == 1
    assert f"{advised.recipe}, the recipe for less than a million words: 4 rounds of " in shown

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
    assert "goes on with the config that it began with" in shown
    assert "Goes on after round 2 of 4" in shown
    assert config_lib.load_of_run(tmp_path / "stopped" / "config.toml") == kept
    assert_same_run(tmp_path / "straight", tmp_path / "stopped")
