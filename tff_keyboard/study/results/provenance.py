"""Where a row of a study comes from: its config and commands, and what each run noted of itself.

What a run notes when it begins is in its `environment.json`; a fact that is not there is None.
"""

import dataclasses
import pathlib
import shlex
from collections.abc import Iterable, Sequence

from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.study.plan.plan import Run


@dataclasses.dataclass(frozen=True)
class Origin:
    """What a run noted when it began: commit of the code, the day, the machine with its CPUs."""

    commit: str | None
    date: str | None
    machine: str | None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the seeds of an arm have in common, and the command of each."""

    config: str  # TOML file, relative to the current directory if it lies there
    set: list[str]  # overrides without the seed; `{after}` as in the study's file
    commands: dict[str, str]  # seed -> words for a shell


def of_run(run: Run) -> Origin:
    """What the files of a run say of its beginning."""
    try:
        noted = RunDirectory(run.path).environment()
    except RunDirectoryError:
        noted = {}
    cores = noted.get("cores")
    machine = [noted.get("machine"), f"{cores} CPUs" if cores else None]
    return Origin(
        commit=noted.get("commit"),
        date=str(noted.get("started_utc") or "").partition("T")[0] or None,
        machine=", ".join(word for word in machine if word) or None,
    )


def of_row(runs: Sequence[Run]) -> Recipe:
    """The recipe of an arm at one point of a sweep."""
    first = runs[0]
    overrides = first.overrides[:-1]  # the seed is the last
    if first.after is not None:
        overrides = tuple(each.replace(str(first.after), "{after}") for each in overrides)
    return Recipe(
        config=str(_short(first.config_file)),
        set=list(overrides),
        commands={str(run.seed): _command(run) for run in runs},
    )


def summary(origins: Iterable[Origin]) -> dict[str, list[str]]:
    """Every commit, date and machine that trained any of the runs, each once."""
    found = list(origins)
    return {
        "commits": sorted({each.commit for each in found if each.commit}),
        "dates": sorted({each.date for each in found if each.date}),
        "machines": sorted({each.machine for each in found if each.machine}),
    }


def _command(run: Run) -> str:
    run = dataclasses.replace(run, config_file=_short(run.config_file))
    return shlex.join(["tff-keyboard", *run.command])


def _short(file: pathlib.Path) -> pathlib.Path:
    """Without `..`, relative to the current directory if it lies there."""
    whole, here = file.resolve(), pathlib.Path.cwd().resolve()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole
