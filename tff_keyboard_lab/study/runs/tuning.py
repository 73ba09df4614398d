"""Tunes the arms of a study: trains the trials, and takes the best one of each arm.

Every arm has the same number of trials, with one seed that no other run of the study has, so that
all methods get the same budget, the same clients and the same initial weights. The last validation
of a trial decides. Held-out clients are not read.

The choice is a function of the finished trials: a study that is started again takes the same.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.storage import files, metrics_rows
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_lab import file_names
from tff_keyboard_lab.study.plan import plan
from tff_keyboard_lab.study.plan.study_file import Study
from tff_keyboard_lab.study.runs import runner


@dataclasses.dataclass(frozen=True)
class Choice:
    """The trials of one arm and the best of them."""

    values: tuple[float | None, ...]  # metric of each trial; None if it is not finite
    chosen: int  # index of the best trial


def train_trials(
    trials: Sequence[plan.Run],
    *,
    jobs: int,
    start: runner.Start,
    train: bool = True,
    may_begin: Callable[[], bool] = lambda: True,
) -> None:
    """Trains the trials that are not finished. `may_begin` is asked before each of them.

    Raises:
      ProgramError: A trial failed, or is not finished and `train` is false. Without all its trials
        an arm would have a smaller budget than the others.
    """
    if train:
        missing = runner.train_all(trials, jobs=jobs, may_begin=may_begin, start=start)
        failed = [*missing.failed, *missing.left_out]
    else:
        failed = [run for run in trials if not runner.is_finished(run)]
    if failed:
        names = ", ".join(run.path.name for run in failed)
        raise ProgramError(
            f"{len(failed)} of {len(trials)} trials are missing: {names}. See the .log files in "
            f"{failed[0].path.parent}, and `budget` of the study. Then run the study again."
        )


def choose(study: Study, trials: Sequence[plan.Run]) -> dict[str, Choice]:
    """Returns arm -> choice, from the metrics of finished trials.

    Raises:
      ProgramError: No trial of an arm has a finite value.
    """
    assert study.tuning is not None
    metric = METRICS[study.tuning.metric]
    sign = -1.0 if metric.better == "lower" else 1.0
    choices = {}
    for arm in dict.fromkeys(run.arm for run in trials):
        values = tuple(_last_value(run, metric.name) for run in trials if run.arm == arm)
        ranks = [-math.inf if value is None else sign * value for value in values]
        if max(ranks) == -math.inf:
            raise ProgramError(
                f"arm {arm} of the study: none of its {len(values)} trials has a finite "
                f"{metric.name} at its last validation. Give it other trials."
            )
        choices[arm] = Choice(values, ranks.index(max(ranks)))
    return choices


def write(study: Study, choices: Mapping[str, Choice], directory: pathlib.Path) -> None:
    """Writes all trials, their values and the choice of each arm to `tuning.json`."""
    assert study.tuning is not None
    arms = {
        name: {
            "trials": [
                {"set": list(overrides), "value": value}
                for overrides, value in zip(study.arm(name).trials, choice.values, strict=True)
            ],
            "chosen": choice.chosen + 1,
        }
        for name, choice in choices.items()
    }
    content = {"seed": study.tuning.seed, "metric": study.tuning.metric, "arms": arms}
    text = json.dumps(content, indent=1, allow_nan=False)
    files.make_directory(directory)
    files.write_atomically(directory / file_names.STUDY_TUNING, [text.encode(), b"\n"])


def _last_value(run: plan.Run, name: str) -> float | None:
    """Returns a metric of the last validation of a run; None if there is none or it is infinite."""
    _, values = metrics_rows.series(RunDirectory(run.path).all_rows(), f"evaluation/{name}")
    return values[-1] if values and math.isfinite(values[-1]) else None
