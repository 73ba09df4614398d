"""Keeps exports of private runs from reading the exact text of the users whom the noise hides.

The noise of the run hides the users on whom it was trained. If an export contained anything else
made from their text, that would reveal it, and no ledger would count it.
"""

import pathlib

from tff_keyboard.privacy.ledger import lineage
from tff_keyboard.storage.errors import ExportError
from tff_keyboard.storage.run_directory import RunDirectory


def is_private(directory: pathlib.Path) -> bool:
    """Returns whether a run trained with privacy: its config says so, or it has a ledger.

    `directory` is the run, or the saved model in it.
    """
    ledger = lineage.ledger_of(directory.resolve())
    return ledger.is_file() or RunDirectory(ledger.parent).declares_privacy


def refuse(directory: pathlib.Path, what: str, instead: str) -> None:
    """Checks that the run is not private.

    Args:
      directory: The run, or the saved model in it.
      what: The part of the export that the users' text would be used for, for the message.
      instead: The sentence of the message that says what to do instead.

    Raises:
      ExportError: If the run is private.
    """
    if is_private(directory):
        raise ExportError(
            f"{directory} was trained with privacy, but {what} the text of the same clients would "
            f"reveal what its noise hides. {instead}"
        )
