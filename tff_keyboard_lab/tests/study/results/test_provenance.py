"""Provenance of rows: each run's own commit and machine, and commands that train them again."""

import dataclasses
import json
import pathlib
import shlex

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.storage import environment, names
from tff_keyboard_lab.study.plan import plan
from tff_keyboard_lab.study.plan.study_file import Arm, Study
from tff_keyboard_lab.study.results import provenance
from tff_keyboard_lab.study.results.provenance import Origin

NOTED = {"commit": "abc", "machine": "x86_64", "cores": 2, "started_utc": "2026-11-21T16:03:44+00"}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Returns runs of `late` with seeds 1 and 2, which start from `base`.

    The study is in configs/studies.
    """
    monkeypatch.chdir(tmp_path)
    folder = pathlib.Path("configs", "studies")
    folder.mkdir(parents=True)
    (folder.parent / "c.toml").write_text("[train]\nrounds = 4\n")
    arms = (
        Arm(name="base", config="../c.toml"),
        Arm(
            name="late",
            config="../c.toml",
            after="base",
            set=("model.initial_model={after}", 'aggregation.rule={type="fedmed"}'),
        ),
    )
    study = Study(question="?", control="base", arms=arms, seeds=(1, 2), set=("train.rounds=5",))
    actual = plan.runs_of(study, folder, pathlib.Path("runs"), ["client.epochs=2"])
    return [run for run in actual if run.arm == "late"]


def note(run, facts):
    run.path.mkdir(parents=True, exist_ok=True)
    (run.path / names.ENVIRONMENT).write_text(json.dumps(facts))


def test_a_row_names_its_config_and_what_overrides_it(runs):
    row = provenance.of_row(runs)
    assert row.config == "configs/c.toml"
    assert row.set == [
        "train.rounds=5",
        "model.initial_model={after}",
        'aggregation.rule={type="fedmed"}',
        "client.epochs=2",
    ]
    assert list(row.commands) == ["1", "2"]


def test_a_command_makes_the_config_of_its_run(runs):
    for run, command in zip(runs, provenance.of_row(runs).commands.values(), strict=True):
        program, task, file, workdir, *settings = shlex.split(command)
        assert (program, task, workdir) == ("tff-keyboard", "train", f"--workdir={run.path}")
        assert all(word.startswith("--set=") for word in settings)
        overrides = [word.removeprefix("--set=") for word in settings]
        config = config_lib.load(file.removeprefix("--config="), overrides)
        assert config_lib.as_run(config) == run.config  # as `train` starts it


def test_a_config_elsewhere_keeps_its_whole_path(runs, tmp_path, monkeypatch):
    whole = tmp_path / "configs" / "c.toml"
    run = dataclasses.replace(runs[0], config_file=whole)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert provenance.of_row([run]).config == str(whole)


def test_the_facts_are_those_of_the_run_not_of_today(runs, monkeypatch):
    monkeypatch.setattr(environment, "describe", lambda: {"commit": "today"})
    note(runs[0], NOTED)
    assert provenance.of_run(runs[0]) == Origin("abc", "2026-11-21", "x86_64, 2 CPUs")


@pytest.mark.parametrize(
    "noted, expected",
    [
        (None, (None, None, None)),
        ([], (None, None, None)),
        ({}, (None, None, None)),
        ({"commit": None, "machine": "arm64"}, (None, None, "arm64")),
        ({"commit": "abc", "started_utc": None, "cores": 4}, ("abc", None, "4 CPUs")),
    ],
    ids=["no file", "damaged", "empty", "outside git", "no date"],
)
def test_missing_facts_of_a_run_are_none(runs, noted, expected):
    if noted is not None:
        note(runs[0], noted)
    assert provenance.of_run(runs[0]) == Origin(*expected)


def test_a_summary_names_each_once():
    origins = [
        Origin("b", "2026-11-22", "x86_64, 2 CPUs"),
        Origin("a", "2026-11-21", "x86_64, 2 CPUs"),
        Origin(None, None, None),
    ]
    assert provenance.summary(origins) == {
        "commits": ["a", "b"],
        "dates": ["2026-11-21", "2026-11-22"],
        "machines": ["x86_64, 2 CPUs"],
    }
