"""Keeps exports of private runs from reading the exact text of the users whom the noise hides.

The noise of the run hides the users on whom it was trained. If an export contained anything else
made from their text, that would reveal it, and no ledger would count it.
"""

import pathlib

from tff_keyboard.privacy.ledger import lineage
from tff_keyboard.storage.errors import ExportError, SavedModelError
from tff_keyboard.storage.model_description import read_description
from tff_keyboard.storage.run_directory import RunDirectory


def is_private(directory: pathlib.Path) -> bool:
    """Returns whether a model was trained with privacy.

    The config of its run says so, or the run has a ledger, or the model itself says so, also if it
    was copied out of the run. `directory` is the run, the saved model in it, or a copy of it.
    """
    ledger = lineage.ledger_of(directory.resolve())
    if ledger.is_file() or RunDirectory(ledger.parent).declares_privacy:
        return True
    return is_private_model(directory)


def is_private_model(directory: pathlib.Path) -> bool:
    """Returns whether a saved model says that it was trained with privacy; False without a model.

    A model of an earlier version says nothing.
    """
    try:
        _, description = read_description(directory)
    except SavedModelError:  # such as an exported .tflite file, or before the first round
        return False
    return description.get("private") is True


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
