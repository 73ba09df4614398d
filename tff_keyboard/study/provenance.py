"""Where a row of a study comes from: its config and commands, and what each run noted of itself.

What a run notes when it begins is in its `environment.json`; a fact that an older run did not note,
or whose file is gone, is None.
"""

import dataclasses
import pathlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.study.plan import Run


def of_run(run: Run) -> dict[str, Any]:
    """Commit of the code that began it, the day, and the machine with its CPUs."""
    try:
        noted = RunDirectory(run.path).environment()
    except RunDirectoryError:
        noted = {}
    cores = noted.get("cores")
    machine = [noted.get("machine"), f"{cores} CPUs" if cores else None]
    return {
        "commit": noted.get("commit"),
        "date": str(noted.get("started_utc") or "").partition("T")[0] or None,
        "machine": ", ".join(word for word in machine if word) or None,
    }


def of_row(runs: Sequence[Run]) -> dict[str, Any]:
    """What the seeds of an arm, at one point of a sweep, have in common, and the command of each.

    Args:
      runs: At least one; they differ in nothing but the seed and the run that they begin with.

    Returns:
      `config` (relative to the current directory, if it lies there), `set` (overrides without the
      seed; `{after}` as in the study's file) and `commands` (seed -> words for a shell).
    """
    first = runs[0]
    overrides = first.overrides[:-1]  # the seed is the last
    if first.after is not None:
        overrides = tuple(each.replace(str(first.after), "{after}") for each in overrides)
    return {
        "config": str(_short(first.config_file)),
        "set": list(overrides),
        "commands": {str(run.seed): _command(run) for run in runs},
    }


def summary(facts: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Every commit, date and machine that trained any of the runs, each once.

    Args:
      facts: What `of_run` says of each.
    """
    found = list(facts)
    return {
        f"{name}s": sorted({fact[name] for fact in found if fact.get(name)})
        for name in ("commit", "date", "machine")
    }


def _command(run: Run) -> str:
    run = dataclasses.replace(run, config_file=_short(run.config_file))
    return shlex.join(["tff-keyboard", *run.command])


def _short(file: pathlib.Path) -> pathlib.Path:
    """Without `..`, relative to the current directory if it lies there."""
    whole, here = file.resolve(), pathlib.Path.cwd().resolve()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole
