"""The runs of a study are evaluated as `evaluate` does."""

import pytest

from tests.support import fakes
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Arm, Study
from tff_keyboard_lab.study.runs.evaluator import StudyEvaluator


@pytest.fixture
def run(store, tmp_path):
    # Most messages of the store are longer than the three words that training would see at once.
    config = fakes.tiny_config(store, "data.max_length=3")
    path = fakes.save_untrained_run(tmp_path / "run", config)
    return Run("control", "", 1, path, "train", path / "config.toml", (), config, None)


def test_digits_are_those_of_evaluate(run):
    study = Study(
        question="?",
        control="control",
        arms=(Arm(name="control", config="config.toml"),),
        populations=("held_out",),
    )
    judged = StudyEvaluator(study, run.config).evaluations(run)["held_out"]
    evaluated = run_evaluation.evaluate_run(run.path, "held_out")
    assert judged.metrics == evaluated.metrics
    cut = run_evaluation.evaluate_run(run.path, "held_out", max_length=3)
    assert cut.metrics != evaluated.metrics
