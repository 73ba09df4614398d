"""Trains a study's runs, judges each as it ends, and writes what is known so far."""

import pathlib
from collections.abc import Sequence

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError, UsageError
from tff_keyboard.study import plan, runner, tables
from tff_keyboard.study.judge import Judge
from tff_keyboard.study.report import Results
from tff_keyboard.study.study_file import Study


class Document:
    """A Markdown document that keeps a study's tables between two markers.

    Args:
      path: Of the document; None for no document.
      name: In the markers.

    Raises:
      UsageError: It cannot be read, or does not have the two markers once each.
    """

    def __init__(self, path: pathlib.Path | None, name: str):
        self._path = path
        self._name = name
        try:
            self._with("")
        except (OSError, ValueError) as error:
            raise UsageError(f"--markdown={path}: {error}") from None

    def write(self, table: str) -> None:
        """Replaces what is between the markers."""
        text = self._with(table)
        if self._path is not None:
            files.write_atomically(self._path, [text.encode()])

    def _with(self, table: str) -> str:
        if self._path is None:
            return ""
        return tables.replace_section(self._path.read_text(encoding="utf-8"), self._name, table)


def conduct(
    study: Study,
    runs: Sequence[plan.Run],
    workdir: pathlib.Path,
    *,
    jobs: int,
    document: Document,
    command: str,
) -> str:
    """Trains whatever is not finished.

    Args:
      study: The study.
      runs: Of it.
      workdir: Where they are, and where tables and pictures go.
      jobs: Trainings at a time.
      document: Keeps the tables, too.
      command: For the record.

    Returns:
      The tables.

    Raises:
      ProgramError: A run failed; the others are done.
    """
    results = Results(study, runs, command)
    judge = Judge(study, next(run.config for run in runs if run.arm == study.control))

    def ended(run: plan.Run) -> None:
        results.add(run, judge.evaluations(run))
        results.write(workdir)
        document.write(results.markdown)

    failed = runner.train_all(runs, jobs=jobs, ended=ended)
    if failed:
        raise ProgramError(
            f"{len(failed)} of {len(runs)} runs are missing: "
            f"{', '.join(run.path.name for run in failed)}. See the .log files beside them."
        )
    return results.markdown
