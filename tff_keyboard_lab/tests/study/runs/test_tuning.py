"""Trials of a tuned study: the best one of each arm, and what happens without it."""

import json
import pathlib

import pytest

from tff_keyboard.storage import names
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_lab import file_names
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Arm, Study, Tuning
from tff_keyboard_lab.study.runs import tuning
from tff_keyboard_lab.tests.study.runs.test_runner import starter

TRIALS = (("client.epochs=1",), ("client.epochs=2",), ("client.epochs=3",))


def study_of(metric="recall_at_3_no_eos", arms=("control", "a")):
    return Study(
        question="?",
        control="control",
        arms=tuple(Arm(name=name, config="c.toml", trials=TRIALS) for name in arms),
        tuning=Tuning(trials=3, seed=9, metric=metric),
    )


def trials_of(tmp_path, values, metric="recall_at_3_no_eos"):
    """Returns the trials of arms with these values of two validations each."""
    runs = []
    for arm, of_arm in values.items():
        for number, (first, last) in enumerate(of_arm, start=1):
            path = pathlib.Path(tmp_path, f"{arm}_{number}")
            path.mkdir()
            rows = [
                {"round": 1, f"evaluation/{metric}": first},
                {"round": 2},
                {"round": 3, f"evaluation/{metric}": last},
            ]
            lines = [json.dumps({k: v for k, v in row.items() if v is not None}) for row in rows]
            (path / names.METRICS).write_text("\n".join(lines) + "\n")
            runs.append(Run(arm, "trials", 9, path, "train", path, (), None, None))
    return runs


def test_the_last_validation_decides_and_a_tie_takes_the_earlier_trial(tmp_path):
    values = {"control": [(0.9, 0.1), (0.1, 0.3), (0.2, 0.2)], "a": [(0, 0.1), (0, 0.2), (0, 0.2)]}
    choices = tuning.choose(study_of(), trials_of(tmp_path, values))
    assert {arm: choice.chosen for arm, choice in choices.items()} == {"control": 1, "a": 1}
    assert choices["control"].values == (0.1, 0.3, 0.2)


def test_lower_is_better_for_a_perplexity_and_an_infinite_one_is_never_chosen(tmp_path):
    values = {"control": [(3.0, 9.0), (3.0, 7.0), (3.0, 1e400)]}
    study = study_of("perplexity", ("control",))
    (choice,) = tuning.choose(study, trials_of(tmp_path, values, "perplexity")).values()
    assert choice == tuning.Choice((9.0, 7.0, None), 1)


def test_an_arm_without_a_finite_trial_is_an_error(tmp_path):
    values = {"control": [(None, None)] * 3}
    with pytest.raises(ProgramError, match="arm control of the study: none of its 3 trials"):
        tuning.choose(study_of(arms=("control",)), trials_of(tmp_path, values))


def test_the_file_has_all_trials_and_the_choice(tmp_path):
    choices = {"control": tuning.Choice((0.1, None, 0.2), 2)}
    tuning.write(study_of(), choices, tmp_path / "new")
    content = json.loads((tmp_path / "new" / file_names.STUDY_TUNING).read_text())
    assert content == {
        "seed": 9,
        "metric": "recall_at_3_no_eos",
        "arms": {
            "control": {
                "trials": [
                    {"set": ["client.epochs=1"], "value": 0.1},
                    {"set": ["client.epochs=2"], "value": None},
                    {"set": ["client.epochs=3"], "value": 0.2},
                ],
                "chosen": 3,
            }
        },
    }


def test_unfinished_trials_are_named_when_nothing_is_trained(tmp_path):
    runs = trials_of(tmp_path, {"control": [(0.1, 0.2)] * 3})
    with pytest.raises(ProgramError, match=r"3 of 3 trials are missing: control_1, .*budget"):
        tuning.train_trials(runs, jobs=1, start=starter(["false"]), train=False)
