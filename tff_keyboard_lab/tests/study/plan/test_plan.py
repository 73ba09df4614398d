"""The runs of a study, their order, and their dependencies."""

import pathlib

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.storage.errors import ConfigError, UsageError
from tff_keyboard_lab.study.plan import plan
from tff_keyboard_lab.study.plan.study_file import Arm, Study, Sweep, Tuning

WORK = pathlib.Path("work")


def runs_of(tmp_path, *arms, seeds=(1, 2), only=(), arms_only=(), overrides=(), **options):
    (tmp_path / "c.toml").write_text("[train]\nrounds = 4\n")
    study = Study(question="?", control="control", arms=arms, seeds=seeds, **options)
    return plan.runs_of(study, tmp_path, WORK, overrides, only, arms_only)


def arm(name, **options):
    return Arm(name=name, config="c.toml", **options)


def names(runs):
    return [run.path.name for run in runs]


def test_all_arms_with_one_seed_before_the_next_the_control_first(tmp_path):
    runs = runs_of(tmp_path, arm("a"), arm("control"))
    assert names(runs) == ["control_seed1", "a_seed1", "control_seed2", "a_seed2"]
    assert [run.config.train.seed for run in runs] == [1, 1, 2, 2]


def test_a_wrong_override_of_an_arm_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"^arm control .*: --set=train\.rouns=6: Unknown"):
        runs_of(tmp_path, arm("control", set=("train.rouns=6",)))


def test_overrides_count_in_their_order(tmp_path):
    (run,) = runs_of(
        tmp_path,
        arm("control", set=("train.rounds=6", "client.epochs=3")),
        seeds=(5,),
        set=("train.rounds=5",),
        overrides=("client.epochs=2",),
    )
    assert (run.config.train.rounds, run.config.client.epochs) == (6, 2)
    assert run.command == [
        "train",
        f"--config={tmp_path / 'c.toml'}",
        f"--workdir={run.path}",
        "--set=train.rounds=5",
        "--set=train.rounds=6",
        "--set=client.epochs=3",
        "--set=client.epochs=2",
        "--set=train.seed=5",
    ]


def test_a_cosine_is_as_long_as_the_arm(tmp_path):
    (run,) = runs_of(tmp_path, arm("control", set=("server.schedule.type=cosine",)), seeds=(5,))
    assert run.config.server.schedule.rounds == run.config.train.rounds == 4


def test_some_of_the_arms_come_with_the_control_and_what_they_begin_with(tmp_path):
    arms = [arm(name) for name in ("a", "control", "base", "unasked")]
    arms.append(arm("b", after="base"))
    assert names(runs_of(tmp_path, *arms, seeds=(1,), arms_only=("b",))) == [
        "base_seed1",
        "control_seed1",
        "b_seed1",
    ]
    with pytest.raises(UsageError, match="no arm c; it has a, control, base, unasked, b"):
        runs_of(tmp_path, *arms, arms_only=("a", "c"))


def test_unknown_seeds_are_rejected(tmp_path):
    arms = [arm("control", seeds=(1, 3)), arm("a")]
    assert names(runs_of(tmp_path, *arms, only=(1,))) == ["control_seed1", "a_seed1"]
    with pytest.raises(
        UsageError, match=r"the control control has none of 2\. Also pass one of 1, 3"
    ):
        runs_of(tmp_path, *arms, only=(2,))
    with pytest.raises(UsageError, match="none of 7, 8"):
        runs_of(tmp_path, *arms, only=(7, 8))


def test_all_directories_whatever_is_chosen(tmp_path):
    sweep = Sweep(key="client.epochs", values=("1", "5"), arms=("a",), seeds=(1,))
    study = Study(
        question="?",
        control="control",
        arms=(arm("control"), arm("a")),
        seeds=(1, 2),
        sweeps=(sweep,),
    )
    (tmp_path / "c.toml").write_text("")
    runs = plan.runs_of(study, tmp_path, WORK)
    assert set(plan.directories(study, WORK)) == {run.path for run in runs}
    assert len(plan.directories(study, WORK)) == len(runs) == 8


def test_a_sweep_repeats_its_arms_and_the_control(tmp_path):
    sweep = Sweep(key="client.epochs", values=("1", "5"), arms=("a",), seeds=(1,))
    runs = runs_of(tmp_path, arm("control"), arm("a"), arm("b"), seeds=(1,), sweeps=(sweep,))
    assert names(runs) == [
        "control_seed1",
        "a_seed1",
        "b_seed1",
        "control_client.epochs=1_seed1",
        "a_client.epochs=1_seed1",
        "control_client.epochs=5_seed1",
        "a_client.epochs=5_seed1",
    ]
    assert [run.config.client.epochs for run in runs[3:]] == [1, 1, 5, 5]


def test_an_arm_starts_from_another_of_its_seed_or_its_only_one(tmp_path):
    arms = [
        arm("base", seeds=(1,)),
        arm("control", after="base", set=("model.initial_model={after}",)),
        arm("more", after="control", set=("model.initial_model={after}",)),
    ]
    runs = {run.path.name: run for run in runs_of(tmp_path, *arms)}
    assert next(iter(runs)) == "base_seed1"
    assert runs["control_seed2"].after == WORK / "base_seed1"
    assert runs["control_seed2"].config.model.initial_model == str(WORK / "base_seed1")
    assert runs["more_seed2"].after == WORK / "control_seed2"
    only = runs_of(tmp_path, *arms, only=(2,))
    assert names(only)[0] == "base_seed1"  # seed 2 needs it
    assert "control_seed1" not in names(only)


def test_a_config_that_breaks_a_rule_is_named(tmp_path):
    with pytest.raises(config_lib.ConfigError, match=r"train\.rounds"):
        runs_of(tmp_path, arm("control", set=("train.rounds=0",)))


def test_file_names_have_no_slashes(tmp_path):
    sweep = Sweep(key="data.store", values=('"a/b c"',))
    runs = runs_of(tmp_path, arm("control"), seeds=(1,), sweeps=(sweep,))
    assert names(runs)[1] == "control_data.store=-a-b-c-_seed1"


TUNED = (
    arm("control", trials=(("client.learning_rate=0.1",), ("client.learning_rate=0.2",))),
    arm("a", set=("client.epochs=2",), trials=(("client.epochs=3",), ("train.rounds=5",))),
)


def tuned(tmp_path):
    (tmp_path / "c.toml").write_text("[train]\nrounds = 4\n")
    tuning = Tuning(trials=2, seed=9)
    return Study(question="?", control="control", arms=TUNED, seeds=(1, 2), tuning=tuning)


def test_trials_have_their_own_seed_and_come_after_the_set_of_their_arm(tmp_path):
    study = tuned(tmp_path)
    trials = plan.trials_of(study, tmp_path, WORK, ("train.rounds=6",))
    assert names(trials) == [
        "control_trial1_seed9", "a_trial1_seed9", "control_trial2_seed9", "a_trial2_seed9"
    ]  # fmt: skip
    assert {run.path.parent for run in trials} == {WORK / "trials"}
    assert {run.config.train.seed for run in trials} == {9}
    assert {run.config.train.rounds for run in trials} == {6}
    assert [run.config.client.epochs for run in trials] == [1, 3, 1, 2]
    assert names(plan.trials_of(study, tmp_path, WORK, arms=("a",))) == names(trials)
    assert names(plan.trials_of(study, tmp_path, WORK, arms=("control",))) == [
        "control_trial1_seed9", "control_trial2_seed9"
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no arm b"):
        plan.trials_of(study, tmp_path, WORK, arms=("b",))


def test_the_runs_of_an_arm_have_the_overrides_of_its_chosen_trial(tmp_path):
    study = plan.with_trials(tuned(tmp_path), {"control": 1, "a": 0})
    runs = plan.runs_of(study, tmp_path, WORK)
    assert [run.config.client.learning_rate for run in runs if run.arm == "control"] == [0.2, 0.2]
    assert [run.config.client.epochs for run in runs if run.arm == "a"] == [3, 3]
    assert [path.name for path in plan.directories(study, WORK)][-1] == "a_trial2_seed9"
    assert len(plan.directories(study, WORK)) == 8


def test_a_study_without_tuning_has_no_trials(tmp_path):
    study = Study(question="?", control="control", arms=(arm("control"),))
    assert plan.trials_of(study, tmp_path, WORK) == []


def test_a_wrong_override_of_a_trial_is_named(tmp_path):
    (tmp_path / "c.toml").write_text("")
    arms = (arm("control", trials=(("train.rouns=6",),)),)
    study = Study(question="?", control="control", arms=arms, tuning=Tuning(trials=1, seed=9))
    with pytest.raises(ConfigError, match=r"^arm control, trial 1 of the study: .*train\.rouns"):
        plan.trials_of(study, tmp_path, WORK)
