"""Checks this machine: Python and packages; where it trains also disk, memory and a TFF worker.

tff-keyboard doctor [--cluster]

Prints a line for each check and, for one that failed, what to do. The exit code is 5 if one failed.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import Range, TaskOptions
from tff_keyboard.storage.errors import CheckFailed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    workdir: Annotated[pathlib.Path, "Folder where runs will be kept, whose disk is checked."] = (
        pathlib.Path()
    )
    cluster: Annotated[bool, "Check the nodes of the cluster of RAY_ADDRESS, too."] = False
    worker_timeout: Annotated[float, "Seconds a TFF worker has to answer.", Range(0)] = 120.0


def run(options: Options) -> None:
    """Makes all checks and prints what they found.

    Raises:
      CheckFailed: What one of them found is not enough.
    """
    from tff_keyboard.program import machine_checks

    failures = 0
    for check in machine_checks.checks(options.workdir, options.worker_timeout, options.cluster):
        if check.takes:
            print(f"...   {check.name:20}  {check.takes}", flush=True)
        try:
            print(f"ok    {check.name:20}  {check.look()}", flush=True)
        except machine_checks.Failure as failure:
            failures += 1
            print(f"FAIL  {check.name:20}  {failure}\n{'':28}-> {failure.remedy}", flush=True)
        except Exception as error:  # a check that breaks is a failed check, the rest still counts
            failures += 1
            print(f"FAIL  {check.name:20}  {type(error).__name__}: {error}", flush=True)
    if failures:
        raise CheckFailed(f"{failures} of the checks failed.")
    print("All is well.")
