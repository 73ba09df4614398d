"""The provenance of a row of a study: its config and commands, and the notes of each run.

The notes of a run about its beginning are in its `environment.json`. A missing fact is None.
"""

import dataclasses
import pathlib
import shlex
from collections.abc import Iterable, Sequence

from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_lab.study.plan.plan import Run


@dataclasses.dataclass(frozen=True)
class Origin:
    """Facts about the beginning of a run: commit of the code, date, and machine with its CPUs."""

    commit: str | None
    date: str | None
    machine: str | None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Config and overrides that the seeds of an arm have in common, and the command of each."""

    config: str  # TOML file, relative to the current directory if it lies there
    set: list[str]  # overrides without the seed; `{after}` as in the study's file
    commands: dict[str, str]  # seed -> words for a shell


def of_run(run: Run) -> Origin:
    """Reads the facts about the beginning of a run."""
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
    """Returns the recipe of an arm at one point of a sweep."""
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
    """Returns all commits, dates and machines of the runs, each once."""
    each_origin = list(origins)
    return {
        "commits": sorted({each.commit for each in each_origin if each.commit}),
        "dates": sorted({each.date for each in each_origin if each.date}),
        "machines": sorted({each.machine for each in each_origin if each.machine}),
    }


def _command(run: Run) -> str:
    """Returns the command line of a run, with the short path of its config."""
    run = dataclasses.replace(run, config_file=_short(run.config_file))
    return shlex.join(["tff-keyboard", *run.command])


def _short(file: pathlib.Path) -> pathlib.Path:
    """Returns a path without `..`, relative to the current directory if it is inside."""
    absolute, here = file.resolve(), pathlib.Path.cwd().resolve()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute
