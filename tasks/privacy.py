"""Prints what a run guarantees: unit, adjacency, mechanism, sampling, rho, epsilon, delta.

tff-keyboard privacy runs/sms
"""

import dataclasses
import pathlib
from typing import Annotated

from tasks.options import TaskOptions, Words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    run_dir: Annotated[pathlib.Path, Words("a run directory")]


def run(options: Options) -> None:
    """Prints the statement of the run's privacy ledger.

    Raises:
      RunDirectoryError: The run made no privacy claim, or its ledger is damaged.
    """
    from tff_keyboard.privacy import statement

    print(statement.privacy_statement(options.run_dir / "privacy_ledger.jsonl"))
