"""The claim of a run: its guarantee with all earlier runs on its clients, or none.

Every reader of a ledger gets the claim here: the statement, the line about a resumed run, the facts
of a study, and audits.
"""

from tff_keyboard.privacy.accounting.guarantee import Guarantee
from tff_keyboard.privacy.claims.guarantee import total_guarantee
from tff_keyboard.privacy.claims.own_rehearsal import rehearsed_own_clients
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.storage.run_directory import RunDirectory


def claim_of(run: RunDirectory, header: LedgerHeader, rounds: int) -> Guarantee | None:
    """Returns the guarantee of a run and all earlier runs on its clients; None if it has no claim.

    A simulation (`fixed_nonce`), a projection and a run with own parts have a claim with labels,
    which a reader must print next to it (`statement.labels_of`).

    Args:
      run: The directory of the run.
      header: The header of its ledger.
      rounds: Number of released rounds.
    """
    if rehearsed_own_clients(run, header):
        return None
    return total_guarantee(header, rounds)
