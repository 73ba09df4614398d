"""What an export of a run with a privacy ledger must not read: its own people's text, exactly.

The noise of the run hides those people. Whatever else is made of their text and shipped would say
it, and no ledger counts that.
"""

import pathlib

from tff_keyboard.privacy.ledger import lineage
from tff_keyboard.storage.errors import ExportError

OWN_POPULATIONS = ("train", "train_later")  # of the people whom the noise hides


def is_private(directory: pathlib.Path) -> bool:
    """Whether a run has a ledger; its directory is named, or that of the saved model in it."""
    return lineage.ledger_of(directory.resolve()).is_file()


def check_texts(directory: pathlib.Path, population: str, *, calibrates: bool) -> None:
    """Raises `ExportError` if a private run's own people are read.

    Args:
      directory: The run.
      population: The one that the parity gate reads; "" where it reads none.
      calibrates: Whether int4 rounding is fitted to train people's text.
    """
    if calibrates:
        refuse(directory, "int4 rounding fitted to", "Give public text with --calibration-text.")
    if population in OWN_POPULATIONS:
        refuse(directory, "the parity gate's figures of", "Leave out --clients.")


def refuse(directory: pathlib.Path, what: str, instead: str) -> None:
    """Raises `ExportError` if the run is private: `what` is made, `instead` is the way out."""
    if is_private(directory):
        raise ExportError(
            f"{directory} has a privacy ledger, and {what} the same people's text would say what "
            f"its noise hides. {instead}"
        )
