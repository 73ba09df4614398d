"""What a person reads: the machine that a time is of, the hybrid, a command that can be given."""

import json
import pathlib
import re
import shlex

import pytest

from tasks.data import advise as advise_task
from tasks.train import train as train_task
from tests.training.advice.test_advice import card
from tff_keyboard.command_line import cli
from tff_keyboard.host import machine_speed
from tff_keyboard.host.machine_speed import Machine
from tff_keyboard.training.advice import advice, reference
from tff_keyboard.training.advice.advice_text import advice_text, sentence, unused_workdir

SLOW = Machine(cores=3, gflops=50.0)


def test_sentence_names_training_reason_time_and_machine():
    found = advice.advise(card(), "s")
    said = sentence(found, SLOW)
    rounds = found.config.train.rounds
    assert "500 train clients, 600,000 words" in said
    assert "persuasion.toml, the config for less than a million words" in said
    assert f"{rounds:,} rounds of 16 clients, which is {found.passes:.1f} passes" in said
    assert "(3 cores with 50 GFLOP/s, just measured)" in said
    assert "starting from models/base, " in sentence(advice.advise(card(words=90_000), "s"), SLOW)
    minutes = [float(word) for word in re.findall(r"([\d.]+) minutes", said)]
    expected = [found.cost.minutes(SLOW), found.cost.core_minutes(SLOW)]
    assert minutes == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize(
    "rounds, says", [(1, "a minute"), (20_000, "hours"), (2_000, " minutes on this machine")]
)
def test_times_are_rounded_to_common_units(rounds, says):
    assert says in sentence(advice.advise(card(), "s", [f"train.rounds={rounds}"]), SLOW)


def test_no_time_is_made_up_for_a_model_that_was_not_measured():
    assert "GFLOP" not in sentence(advice.advise(card(), "s", ["model.type=gru"]), SLOW)


def test_hybrid_is_shown_next_to_the_model():
    found = advice.advise(card(words=1_600_000), "s")
    shown = advice_text(found, SLOW, "runs/s")
    for corpus in found.nearest:
        for model in corpus.recipes:
            hybrid = corpus.hybrid_of(model)
            (row,) = [
                line
                for line in shown.splitlines()
                if line.startswith(corpus.name) and f"  {model.passes:g} " in line
            ]
            assert f"{model.top_1[0]:.1f}, {model.top_3:.1f}" in row
            assert row.endswith(f"{hybrid.top_1[0]:.1f}, {hybrid.top_3:.1f}")


@pytest.mark.parametrize(("words", "is_far"), [(20_000, True), (200_000, False)])
def test_corpora_that_are_far_larger_promise_nothing(words, is_far):
    shown = advice_text(advice.advise(card(words=words), "s"), SLOW, "runs/s")
    assert ("expect less" in shown) == is_far


def test_hybrids_are_found_by_the_run_that_they_are_of():
    pairs = [
        (model.row, hybrid.row)
        for corpus in reference.corpora()
        for model in corpus.models
        if (hybrid := corpus.hybrid_of(model))
    ]
    assert len(pairs) == sum(
        model.row.startswith("hybrid:") for corpus in reference.corpora() for model in corpus.models
    )
    assert all(hybrid == f"hybrid:{model}" for model, hybrid in pairs)


def test_the_command_can_be_given(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(machine_speed, "measured", lambda: SLOW)
    (tmp_path / "my store").mkdir()
    whole = card() | {"format": 1, "file_bytes": {}, "store_sha256": "0"}
    (tmp_path / "my store" / "data_card.json").write_text(json.dumps(whole))
    assert cli.launch(advise_task, [str(tmp_path / "my store")]) == cli.OK
    shown = capsys.readouterr().out
    (command,) = [line for line in shown.splitlines() if "tff-keyboard train" in line]
    task, name, *arguments = shlex.split(command)
    assert (task, name) == ("tff-keyboard", "train")
    options = train_task.Options.parse("train", arguments)
    assert options.store == tmp_path / "my store"
    assert (options.workdir, options.config) == (pathlib.Path("runs/my store"), None)


def test_a_new_run_directory_is_proposed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = pathlib.Path("data/demo")
    assert unused_workdir(store) == pathlib.Path("runs/demo")
    for name in ("demo", "demo_2"):
        pathlib.Path("runs", name).mkdir(parents=True)
    assert unused_workdir(store) == pathlib.Path("runs/demo_3")


def test_no_store_is_one_line(tmp_path, capsys):
    assert cli.launch(advise_task, [str(tmp_path)]) == 3
    assert "is not a client store" in capsys.readouterr().err
