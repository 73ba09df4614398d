"""Prints what a run guarantees: unit, adjacency, mechanism, sampling, rho, epsilon, delta.

tff-keyboard privacy runs/sms
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from tasks import cli
from tff_keyboard.privacy import statement

FLAGS = flags.FlagValues()  # of this task alone


def run(run_dir: pathlib.Path) -> str:
    """The statement of `run_dir`, from its privacy ledger.

    Raises:
      RunDirectoryError: The run made no privacy claim, or its ledger is damaged.
    """
    return statement.privacy_statement(run_dir / "privacy_ledger.jsonl")


def main(argv: Sequence[str]) -> None:
    """Prints the statement of the run directory named on the command line."""
    print(run(pathlib.Path(cli.one_argument(argv, "a run directory"))))


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
