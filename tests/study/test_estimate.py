"""What a study takes, before it is begun."""

import pytest

from tff_keyboard.study import estimate, plan
from tff_keyboard.study.study_file import Arm, Study

STORES = {"data/s": (30.0, 8.0)}  # messages a person, tokens a message


def run_of(tmp_path, *settings, task="train"):
    (tmp_path / "c.toml").write_text("[data]\nstore = 'data/s'\n")
    arm = Arm(name="control", config="c.toml", task=task, set=settings)
    study = Study(question="?", control="control", arms=(arm,))
    (run,) = plan.runs_of(study, tmp_path, tmp_path / "runs")
    return run


@pytest.mark.parametrize(
    "task, most, epochs, expected",
    [
        ("train", 10, 1, 4 * 5 * 10 * 8),
        ("train", 10, 3, 4 * 5 * 10 * 8 * 3),
        ("train", 64, 1, 4 * 5 * 30 * 8),  # nobody has more than they wrote
        ("train", 0, 2, 4 * 5 * 30 * 8 * 2),  # 0 is all, not none
        ("train-server", 64, 1, 4 * 5 * 64 * 8),
    ],
)
def test_tokens_are_those_of_the_average_person(tmp_path, task, most, epochs, expected):
    run = run_of(
        tmp_path,
        *("train.rounds=4", "train.clients_per_round=5"),
        *(f"client.max_examples={most}", f"client.epochs={epochs}"),
        task=task,
    )
    assert estimate.tokens_of(run, dict(STORES)) == expected


def test_hours_are_at_the_assumed_rate_before_the_first_round(tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "_averages", STORES.__getitem__)
    run = run_of(tmp_path, "train.rounds=6000", "train.clients_per_round=20")
    assert estimate.measured_rate([run]) == 0
    text = estimate.plan_text([run], jobs=2)
    assert "1 runs, 2 at a time, 0 finished; about 28.8 M tokens to go, 2.0 hours" in text
    assert "0/1" in text
