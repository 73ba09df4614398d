"""The runs of a study and their order."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tff_keyboard import config as config_lib
from tff_keyboard.config import as_run
from tff_keyboard.storage.errors import ConfigError, UsageError
from tff_keyboard_lab.study.plan.study_file import Study


class _Training(NamedTuple):
    """The place of a run in a study."""

    arm: str
    point: str  # of a sweep; "" for the arms as they are
    seed: int


@dataclasses.dataclass(frozen=True)
class Run:
    """One training."""

    arm: str
    point: str  # `key=value` of the sweep it belongs to; "" for the arms as they are
    seed: int
    path: pathlib.Path
    task: str
    config_file: pathlib.Path
    overrides: tuple[str, ...]  # overrides of the file, in the order in which they count
    config: config_lib.RunConfig
    after: pathlib.Path | None  # run directory that must be finished first, or None

    @property
    def variant(self) -> str:
        """Arm and point, which its seeds have in common."""
        return variant_name(self.arm, self.point)

    @property
    def command(self) -> list[str]:
        """Arguments of `tff-keyboard` that train it."""
        words = [self.task, f"--config={self.config_file}", f"--workdir={self.path}"]
        return words + [f"--set={override}" for override in self.overrides]


def variant_name(arm: str, point: str) -> str:
    """Returns the name of an arm at a point of a sweep.

    >>> variant_name("fedatt", "client.epochs=5"), variant_name("fedatt", "")
    ('fedatt, client.epochs=5', 'fedatt')
    """
    return f"{arm}, {point}" if point else arm


def runs_of(
    study: Study,
    folder: pathlib.Path,
    workdir: pathlib.Path,
    overrides: Sequence[str] = (),
    seeds: Sequence[int] = (),
    arms: Sequence[str] = (),
) -> list[Run]:
    """Returns all runs: the first seed of all arms before the second of any, and the control first.

    Args:
      study: The study.
      folder: Folder of its file. Paths of configs are relative to it.
      workdir: Folder of the runs.
      overrides: Overrides of all runs, after those of the study and of the arms.
      seeds: Seeds to train; all if empty.
      arms: Arms to train, with the control and the arms that they start from; all if empty.

    Raises:
      UsageError: If the study has no such arm or seed, or the control has none of the seeds.
    """
    _require_arms(study, arms)
    trainings = list(dict.fromkeys(_trainings(study)))
    selected = [training for training in trainings if not seeds or training.seed in seeds]
    if arms:
        arms_and_control = (*arms, study.control)
        selected = [training for training in selected if training.arm in arms_and_control]
    _require_control(study, selected, seeds)
    # The trainings from whose models the selected ones start.
    needed = {_after(study, training, trainings) for training in selected} - {None}
    order = [training for training in trainings if training in selected or training in needed]
    seeds_in_order = dict.fromkeys(training.seed for training in order)
    ranks = {seed: rank for rank, seed in enumerate(seeds_in_order)}
    order.sort(key=lambda each: (each not in needed, ranks[each.seed], each.point != ""))
    return [_run(study, folder, workdir, overrides, each, trainings) for each in order]


def directories(study: Study, workdir: pathlib.Path) -> list[pathlib.Path]:
    """Returns the directories of all runs and trials.

    Runs that were not chosen or not begun are among them.
    """
    runs = [_directory(workdir, each) for each in dict.fromkeys(_trainings(study))]
    return runs + [_trial_directory(workdir, study, *each) for each in _trials(study)]


def trials_of(
    study: Study,
    folder: pathlib.Path,
    workdir: pathlib.Path,
    overrides: Sequence[str] = (),
    arms: Sequence[str] = (),
) -> list[Run]:
    """Returns the trials of a study's tuning: the first of all arms before the second of any.

    Args:
      study: The study. Without a table [tuning] it has no trials.
      folder: Folder of its file.
      workdir: Folder of the runs. Trials are in its folder `trials`.
      overrides: Overrides of all trials, after those of the study, the arm and the trial.
      arms: Arms to tune, with the control; all if empty.
    """
    _require_arms(study, arms)
    runs = []
    for name, number in _trials(study):
        if arms and name not in (*arms, study.control):
            continue
        assert study.tuning is not None
        arm = study.arm(name)
        seed = f"train.seed={study.tuning.seed}"
        words = (*study.set, *arm.set, *arm.trials[number], *overrides, seed)
        file = folder / arm.config
        config = _load(file, words, variant_name(name, f"trial {number + 1}"))
        path = _trial_directory(workdir, study, name, number)
        runs.append(
            Run(name, "trials", study.tuning.seed, path, arm.task, file, words, config, None)
        )
    return runs


def with_trials(study: Study, chosen: Mapping[str, int]) -> Study:
    """Returns the study with the overrides of one trial added to each arm.

    Args:
      study: A study with a table [tuning].
      chosen: Arm -> index of its trial. An arm that is missing stays as it is.
    """
    arms = tuple(
        dataclasses.replace(arm, set=(*arm.set, *arm.trials[chosen[arm.name]]))
        if arm.name in chosen
        else arm
        for arm in study.arms
    )
    return dataclasses.replace(study, arms=arms)


def _trials(study: Study) -> Iterator[tuple[str, int]]:
    """Yields `(arm, index)` of each trial."""
    for number in range(study.tuning.trials if study.tuning else 0):
        for arm in study.arms:
            yield arm.name, number


def _trial_directory(workdir: pathlib.Path, study: Study, name: str, number: int) -> pathlib.Path:
    assert study.tuning is not None
    return workdir / "trials" / f"{name}_trial{number + 1}_seed{study.tuning.seed}"


def _require_arms(study: Study, arms: Sequence[str]) -> None:
    names = [arm.name for arm in study.arms]
    for name in arms:
        if name not in names:
            raise UsageError(f"--arm: the study has no arm {name}; it has {', '.join(names)}.")


def _require_control(study: Study, selected: Sequence[_Training], seeds: Sequence[int]) -> None:
    """Checks that the control is among the chosen runs.

    Without the control no run can be judged: its config names the text, and its runs are the
    reference.
    """
    requested_seeds = ", ".join(map(str, seeds))
    if not selected:
        raise UsageError(f"--seeds: the study has none of {requested_seeds}.")
    if study.control not in {name for name, *_ in selected}:
        control_seeds = ", ".join(map(str, study.arm(study.control).seeds))
        raise UsageError(
            f"--seeds: the control {study.control} has none of {requested_seeds}. "
            f"Also pass one of {control_seeds}."
        )


def _trainings(study: Study) -> Iterator[_Training]:
    """Yields trainings in the order of the study.

    The control comes first if it does not wait for another arm.
    """
    arms = list(study.arms)
    if not study.arm(study.control).after:
        arms.sort(key=lambda arm: arm.name != study.control)
    for arm in arms:
        for seed in arm.seeds or study.seeds:
            yield _Training(arm.name, "", seed)
    for sweep in study.sweeps:
        for value in sweep.values:
            for arm in arms:
                if not sweep.arms or arm.name in (*sweep.arms, study.control):
                    for seed in sweep.seeds or arm.seeds or study.seeds:
                        yield _Training(arm.name, f"{sweep.key}={value}", seed)


def _after(study: Study, training: _Training, all_of_them: list[_Training]) -> _Training | None:
    """Returns the training that must be finished first, of the same point and seed if possible."""
    name, point, seed = training
    before = study.arm(name).after
    if not before:
        return None
    same_seed = [_Training(before, point, seed), _Training(before, "", seed)]
    same_arm = [each for each in all_of_them if each.arm == before]
    return next(each for each in (*same_seed, *same_arm) if each in all_of_them)


def _run(
    study: Study,
    folder: pathlib.Path,
    workdir: pathlib.Path,
    overrides: Sequence[str],
    training: _Training,
    all_of_them: list[_Training],
) -> Run:
    """Returns the run of a training: its overrides, its config and its directory."""
    name, point, seed = training
    arm = study.arm(name)
    before = _after(study, training, all_of_them)
    after = _directory(workdir, before) if before else None
    of_arm = [each.replace("{after}", str(after)) for each in (*study.set, *arm.set)]
    words = (*of_arm, *([point] if point else []), *overrides, f"train.seed={seed}")
    file = folder / arm.config
    config = _load(file, words, variant_name(name, point))
    path = _directory(workdir, training)
    return Run(name, point, seed, path, arm.task, file, words, config, after)


def _load(file: pathlib.Path, words: Sequence[str], variant: str) -> config_lib.RunConfig:
    try:
        return as_run(config_lib.load(file, words))
    except ConfigError as error:
        raise ConfigError(f"arm {variant} of the study: {error}") from None


def _directory(workdir: pathlib.Path, training: _Training) -> pathlib.Path:
    """Returns a directory named after the training.

    Characters that are unsafe in file names are replaced.
    """
    name, point, seed = training
    point = re.sub(r"[^A-Za-z0-9=.+-]", "-", point)
    return workdir / "_".join(word for word in (name, point, f"seed{seed}") if word)
