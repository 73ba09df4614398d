"""Checks that this machine is ready: Python, packages, disk, memory and a small TFF round.

tff-keyboard doctor [--workdir=runs]

Prints one line for each check. If a check fails, the next line says what to do, and the exit code
is 5. An installation without the training packages checks only Python and the packages.
"""

import dataclasses
import pathlib
from typing import Annotated

from tff_keyboard.command_line.options import TaskOptions
from tff_keyboard.storage.errors import CheckFailed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `doctor`."""

    workdir: Annotated[pathlib.Path, "Folder for runs. The free space of its disk is checked."] = (
        pathlib.Path()
    )


def run(options: Options) -> None:
    """Runs all checks and prints the results.

    Raises:
      CheckFailed: If a check fails.
    """
    from tff_keyboard.training import machine_checks

    failures = 0
    for check in machine_checks.checks(options.workdir):
        if check.takes:
            print(f"...   {check.name:20}  {check.takes}", flush=True)
        try:
            print(f"ok    {check.name:20}  {check.look()}", flush=True)
        except machine_checks.Failure as failure:
            failures += 1
            print(f"FAIL  {check.name:20}  {failure}\n{'':28}-> {failure.remedy}", flush=True)
        except Exception as error:  # a check that raises has failed; the others still run
            failures += 1
            print(f"FAIL  {check.name:20}  {type(error).__name__}: {error}", flush=True)
    if failures:
        raise CheckFailed(f"{failures} of the checks failed. The lines marked FAIL say what to do.")
    print("All checks passed.")
