"""The task from a store to its tables, with an interruption."""

import json

import pytest

from tasks.phone import export as export_task
from tests.support.fakes import save_untrained_run, tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard_app.commands import personalise
from tff_keyboard_app.personalisation import person as person_lib


@pytest.fixture(scope="module")
def model(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("personalise")
    run = save_untrained_run(folder / "run", tiny_config(store, "model.units=10"))
    arguments = [str(run), f"--out={folder / 'k.tflite'}", "--trainable", "--ngram=6kB"]
    assert cli.launch(export_task, [*arguments, "--no-parity"]) == cli.OK
    return folder / "k.tflite"


def launch(model, store, out, *arguments):
    words = [str(model), f"--store={store}", f"--out={out}", "--learning-rate=0.5", *arguments]
    return cli.launch(personalise, words)


def test_measures_all_users_and_resumes(model, store, tmp_path, capsys, monkeypatch):
    assert launch(model, store, tmp_path / "whole", "--max-clients=4") == cli.OK
    shown = capsys.readouterr().out
    assert "4 clients" in shown
    assert "all, fine-tuned, gated" in shown
    content = json.loads((tmp_path / "whole" / "personalisation.json").read_text())
    assert content["people"] == 4
    assert content["metrics"]["kss"]["gated"]["against"]["network"]["harmed"] >= 0
    lines = (tmp_path / "whole" / "clients.jsonl").read_text().splitlines()
    names = [json.loads(line)["person"] for line in lines[1:]]
    assert names == sorted(names)

    person = person_lib.Personaliser.person
    calls = []

    def stopped(self, messages):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(1)
        return person(self, messages)

    monkeypatch.setattr(person_lib.Personaliser, "person", stopped)
    launch(model, store, tmp_path / "cut", "--max-clients=4")
    monkeypatch.setattr(person_lib.Personaliser, "person", person)
    assert launch(model, store, tmp_path / "cut", "--max-clients=4") == cli.OK
    for name in ("clients.jsonl", "personalisation.json"):
        files = [tmp_path / run / name for run in ("whole", "cut")]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--max-clients=0"], cli.USAGE, "--max-clients"),
        (["--epochs=0"], cli.USAGE, "not a positive integer"),
        (["--text=mine.tsv"], cli.USAGE, "--text=FILE for one client, or --store=DIR"),
        (["--user=ann"], cli.USAGE, "--user requires --text"),
        (["--clients=train_later"], cli.BAD_INPUT, "no client of 'train_later'"),
    ],
)
def test_errors_are_one_line(model, store, tmp_path, capsys, arguments, code, message):
    assert launch(model, store, tmp_path / "out", *arguments) == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
