"""Trains a study's runs, judges each as it ends, and writes the results so far."""

import contextlib
import pathlib
import sys
from collections.abc import Sequence

from tff_keyboard.storage import exclusive_file, files, names
from tff_keyboard.storage.errors import DivergedError, ProgramError, UsageError
from tff_keyboard_lab import file_names
from tff_keyboard_lab.study.plan import plan
from tff_keyboard_lab.study.plan.study_file import Study
from tff_keyboard_lab.study.results.report import Results
from tff_keyboard_lab.study.runs import budget, runner, tuning
from tff_keyboard_lab.study.runs.evaluator import StudyEvaluator
from tff_keyboard_lab.study.runs.models import Models


def run_study(
    study: Study,
    runs: Sequence[plan.Run],
    workdir: pathlib.Path,
    *,
    jobs: int,
    command: str,
    start: runner.Start,
    train: bool = True,
) -> str:
    """Trains the runs that are not finished, and returns the answer and a table for a terminal.

    Raises:
      ProgramError: If a run failed, diverged or was left out because of the budget. The others are
        finished.
      UsageError: If another study trains in `workdir`.
    """
    with _training(workdir) if train else contextlib.nullcontext():
        results = Results(study, runs, command)
        control = next(run.config for run in runs if run.arm == study.control)
        evaluator = StudyEvaluator(study, control)
        models = Models(study, evaluator, control.data.store, workdir / file_names.STUDY_MODELS)

        before = {run.path for run in runs if runner.is_finished(run)}

        diverged: list[plan.Run] = []

        def ended(run: plan.Run) -> None:
            """Evaluates a run, and writes the results so far."""
            try:
                results.add(run, evaluator.evaluations(run))
                for name, evaluations in models.of_run(run).items():
                    results.add_model(name, run.seed, evaluations)
            except DivergedError as error:
                diverged.append(run)
                print(error, file=sys.stderr, flush=True)
                return
            if run.path not in before:  # runs of an earlier call are shown with the next one
                results.write(workdir)

        finished = [run for run in runs if {run.path, run.after or run.path} <= before]
        missing = runner.train_all(
            runs if train else finished,
            jobs=jobs,
            ended=ended,
            may_begin=lambda: not _used_up(study, workdir),
            start=start,
        )
        text = "" if results.is_empty else results.write(workdir)
        problems = []
        if diverged:
            problems.append(f"{len(diverged)} of {len(runs)} runs diverged: {_names(diverged)}.")
        if missing.failed:
            problems.append(
                f"{len(missing.failed)} of {len(runs)} runs are missing: {_names(missing.failed)}. "
                "See the .log files next to them."
            )
        if missing.left_out:
            problems.append(
                f"{len(missing.left_out)} of {len(runs)} runs are left out: "
                f"{_names(missing.left_out)}. {_budget_line(study, workdir)}"
            )
        if problems:
            raise ProgramError(" ".join(problems))
        return text


def tune(
    study: Study,
    trials: Sequence[plan.Run],
    workdir: pathlib.Path,
    *,
    jobs: int,
    start: runner.Start,
    train: bool = True,
) -> dict[str, int]:
    """Trains the trials that are not finished, writes `tuning.json`, and returns the best ones.

    Returns:
      Arm -> index of its best trial.

    Raises:
      ProgramError: Trials failed, or no trial of an arm has a finite value.
      UsageError: Another study trains in `workdir`.
    """
    with _training(workdir) if train else contextlib.nullcontext():
        tuning.train_trials(
            trials,
            jobs=jobs,
            start=start,
            train=train,
            may_begin=lambda: not _used_up(study, workdir),
        )
        choices = tuning.choose(study, trials)
        if train:
            tuning.write(study, choices, workdir)
    return {arm: choice.chosen for arm, choice in choices.items()}


def _training(workdir: pathlib.Path) -> contextlib.AbstractContextManager[int]:
    """Locks the folder, so that no other study trains the same runs."""
    files.make_directory(workdir)
    path = workdir / names.LOCK
    return exclusive_file.held(
        path,
        cannot=lambda why: UsageError(
            f"{path}: cannot be written ({why}). Pass another --workdir."
        ),
        taken=UsageError(
            f"{workdir}: another study trains there. Wait for it. --jobs trains several runs at "
            "a time, and --tables shows the finished runs."
        ),
    )


def _names(runs: Sequence[plan.Run]) -> str:
    return ", ".join(run.path.name for run in runs)


def _used_up(study: Study, workdir: pathlib.Path) -> list[str]:
    """Returns the keys of the budget that all runs of the study have used up."""
    if study.budget is None:
        return []
    return budget.used_up(study.budget, budget.used_by(plan.directories(study, workdir)))


def _budget_line(study: Study, workdir: pathlib.Path) -> str:
    assert study.budget is not None  # runs are only left out because of the budget
    used = budget.used_by(plan.directories(study, workdir))
    keys = " and ".join(f"`{key}`" for key in budget.used_up(study.budget, used))
    return (
        f"The budget is used up: {budget.describe(study.budget, used)}. Raise {keys} in the "
        "study's file and run the same command again."
    )
