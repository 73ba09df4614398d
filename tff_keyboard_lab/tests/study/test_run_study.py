"""A study under a budget.

A script replaces the train task; its clock shows one hour for each round.
"""

import dataclasses
import json
import sys

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_lab import file_names
from tff_keyboard_lab.study import run_study
from tff_keyboard_lab.study.plan import plan
from tff_keyboard_lab.study.plan.study_file import Arm, Budget, Study
from tff_keyboard_lab.study.results import report
from tff_keyboard_lab.tests.study.results.test_rows import FACTS, HITS, NATS, evaluations
from tff_keyboard_lab.tests.study.runs.test_runner import TRAINER, starter

AN_HOUR = """
(path / 'timings.csv').write_text('round,round_seconds\\n1,3600\\n')
"""


class StudyEvaluator:
    """A judge that finds all runs equal."""

    def __init__(self, study, control):
        self.found = evaluations(HITS[0, 0], NATS[0, 0])

    def evaluations(self, run):
        return self.found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER + AN_HOUR)
    monkeypatch.setattr(run_study, "StudyEvaluator", StudyEvaluator)
    monkeypatch.setattr(report.run_facts, "facts_of", lambda run, study: FACTS)
    return tmp_path


def conducted(folder, hours, arms=(), **options):
    study = Study(
        **{"question": "?", "control": "control", "seeds": (1, 2)},
        arms=tuple(Arm(name=name, config="c.toml") for name in ("control", "a", "bad")),
        budget=Budget(hours=hours) if hours else None,
    )
    (folder / "c.toml").write_text("[train]\nrounds = 1\n")
    runs = plan.runs_of(study, folder, folder / "runs", arms=arms)
    runs = [dataclasses.replace(run, config_file=resolved(folder, run)) for run in runs]
    return run_study.run_study(
        study,
        runs,
        folder / "runs",
        **{"jobs": 1, "command": "tff-keyboard study s"},
        start=starter([sys.executable, str(folder / "trainer.py")]),
        **options,
    )


def resolved(folder, run):
    """Returns the run's config as `train` stores it, which the script copies."""
    path = folder / f"{run.path.name}.toml"
    path.write_text(config_lib.dump(run.config))
    return path


def seeds_of_rows(folder):
    rows = json.loads((folder / "runs" / file_names.STUDY).read_text())["rows"]
    return {row["arm"]: list(row["seeds"]) for row in rows}


def test_a_budget_cuts_seeds_evenly_and_goes_on_when_it_is_raised(folder):
    arms = ("control", "a")
    with pytest.raises(ProgramError) as caught:
        conducted(folder, 1.5, arms)
    assert str(caught.value) == (
        "2 of 4 runs are left out: control_seed2, a_seed2. The budget is used up: 2.00 of 1.50 "
        "hours. Raise `budget.hours` in the study's file and run the same command again."
    )
    assert caught.value.exit_code == 4
    assert seeds_of_rows(folder) == {"control": ["1"], "a": ["1"]}
    assert (folder / "runs" / file_names.STUDY_TABLES).exists()

    with pytest.raises(ProgramError, match="1 of 4 runs are left out: a_seed2"):
        conducted(folder, 3.0, arms)  # what earlier sessions took counts
    assert seeds_of_rows(folder) == {"control": ["1", "2"], "a": ["1"]}

    assert conducted(folder, 0, arms)
    assert seeds_of_rows(folder) == {"control": ["1", "2"], "a": ["1", "2"]}
    assert conducted(folder, 1.0, arms)  # nothing is left to be begun


def test_runs_that_were_not_chosen_count(folder):
    conducted(folder, 0, ("a",))  # control and a, two seeds: four hours
    (folder / "runs" / "control_seed2" / names.METRICS).unlink()
    with pytest.raises(ProgramError, match="1 of 2 runs are left out: control_seed2"):
        conducted(folder, 3.5, ("control",))


def test_failed_and_left_out_runs_are_reported_in_one_line(folder):
    with pytest.raises(ProgramError) as caught:
        conducted(folder, 2.5)
    text = str(caught.value)
    assert text.startswith(
        "1 of 6 runs are missing: bad_seed1. See the .log files next to them. 2 "
    )
    assert "2 of 6 runs are left out: a_seed2, bad_seed2. The budget is used up: 3.00 of" in text
    assert "\n" not in text


def test_tables_ask_for_no_budget(folder):
    conducted(folder, 0, ("a",))
    (folder / "runs" / "a_seed2" / names.METRICS).unlink()
    assert conducted(folder, 0.1, ("a",), train=False)
    assert seeds_of_rows(folder) == {"control": ["1", "2"], "a": ["1"]}
