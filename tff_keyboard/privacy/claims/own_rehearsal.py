"""Finds runs whose own clients' text was rehearsed by other clients, so that they have no claim.

`train` refuses this. Runs of version 0.2.0 may have done it.
"""

from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.privacy.ledger.lineage import rehearses
from tff_keyboard.storage.run_directory import RunDirectory


def rehearsed_own_clients(run: RunDirectory, header: LedgerHeader) -> str:
    """Returns why the run has no claim, as a sentence; "" if no client of it was rehearsed.

    Args:
      run: The run directory.
      header: The header of its ledger.
    """
    if not rehearses(run) or not header.population:
        return ""
    consequence = "any number of other clients trained on their text"
    rehearsed = client_digests.read(run.rehearsed_client_digests)
    trained = client_digests.read(run.client_digests)  # of both together
    if rehearsed is None or trained is None:
        return (
            "the record of the clients in the general corpus is lost. If clients of this run are "
            f"among them, {consequence}"
        )
    shared = header.population + len(rehearsed.digests) - len(trained.digests)
    if shared <= 0:
        return ""
    return f"{shared} of these clients are also in the general corpus, so {consequence}"
