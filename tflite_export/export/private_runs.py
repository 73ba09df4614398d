"""Keeps exports of private runs from reading the exact text of the users whom the noise hides.

The noise of the run hides the users on whom it was trained. If an export contained anything else
made from their text, that would reveal it, and no ledger would count it.
"""

import pathlib
from collections.abc import Sequence

from tff_keyboard.privacy.ledger import client_digests, lineage
from tff_keyboard.privacy.ledger.client_digests import ClientDigests
from tff_keyboard.privacy.ledger.origin import EarlierRun, id_of_run
from tff_keyboard.storage.errors import ExportError
from tff_keyboard.storage.run_directory import RunDirectory


def is_private(directory: pathlib.Path) -> bool:
    """Returns whether a model was trained with privacy.

    The config of its run says so, or the run has a ledger, or the model itself says so, also if it
    was copied out of the run. `directory` is the run, the saved model in it, or a copy of it.
    """
    ledger = lineage.ledger_of(directory.resolve())
    if ledger.is_file() or RunDirectory(ledger.parent).declares_privacy:
        return True
    return lineage.is_private_model(directory)


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


def refuse_counts(
    directory: pathlib.Path, client_ids: Sequence[str], what: str, instead: str
) -> None:
    """Checks that no run that led to a model hides the clients whose text is counted.

    Args:
      directory: The run, or the saved model in it.
      client_ids: Ids of the clients whose text is counted.
      what: The part of the export, for the message.
      instead: The sentence of the message that says what to do instead.

    Raises:
      ExportError: If the run is private, or continues a private run on some of these clients, or on
        clients that cannot be compared with them.
    """
    refuse(directory, what, instead)
    counted = client_digests.salted(client_ids)
    for earlier in lineage.earlier_runs(str(directory)):
        if _hides(earlier, counted):
            raise ExportError(
                f"{directory} continues {earlier.model}, which was trained with privacy, perhaps "
                f"on the same clients, and {what} their text would reveal what its noise hides. "
                f"{instead}"
            )


def _hides(earlier: EarlierRun, counted: ClientDigests) -> bool:
    """Checks if noise hides clients of an earlier run that may be among the `counted` ones."""
    model = pathlib.Path(earlier.path or earlier.model)
    if not earlier.rounds and not is_private(model):
        # A model that is in no run says whether a private run led to it.
        return not earlier.path and lineage.comes_from_private_run(model)
    run = RunDirectory(earlier.path)
    if not earlier.path or not run.exists() or id_of_run(run) != earlier.run_id:
        return True  # its clients are unknown
    clients = client_digests.read(run.client_digests)
    return clients is None or clients.overlap(counted) != client_digests.NONE
