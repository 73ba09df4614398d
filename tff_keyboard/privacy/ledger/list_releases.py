"""Releases of word lists that were made from the text of a run's clients.

A list is one release of a Gaussian mechanism with contributions from all clients
(`tff_keyboard_app/aosp/aosp_part.py`). The run directory has one ledger for each noise setting,
with a line for each list. The accounting of the run includes these ledgers.
"""

import dataclasses
import hashlib
import json
import pathlib

from tff_keyboard.config.reading import tables
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.privacy.mechanisms.mechanism import Gaussian
from tff_keyboard.storage import names


def list_header(
    run: LedgerHeader, *, noise_multiplier: float, clip_norm: float, people: int
) -> LedgerHeader:
    """Returns the privacy cost of one word list as a ledger header, like one round.

    Args:
      run: Header of the run. The list has its delta, vocabulary and store.
      noise_multiplier: Noise standard deviation / clip norm.
      clip_norm: L2 bound on the contribution of one client.
      people: Number of clients.
    """
    return dataclasses.replace(
        run,
        mechanism=Gaussian(),
        aggregator="word list",
        noise_multiplier=noise_multiplier,
        clip_norm=clip_norm,
        population=people,
        clients_per_round=people,
        selected_per_round=people,
        sampling="fixed_size",
        uniform_sampling=False,
        secret_cohorts=False,
        min_separation_rounds=1,
        max_participations=0,
        noise_source="",
        key_id="",  # the key is not stored
        noise_cohort_size=0,
        records_participation=False,
        initial_model="",
        ancestors=(),
    )


def record(run: pathlib.Path, header: LedgerHeader) -> None:
    """Records one more list, described by `list_header`, before its release.

    Raises:
      ProgramError: If it cannot be written. The list must then not be released.
      RunDirectoryError: If the ledger of this noise setting is damaged.
    """
    facts = json.dumps(tables.plain(header), sort_keys=True).encode()
    digest = hashlib.sha256(facts).hexdigest()[:16]
    ledger = PrivacyLedger(run / names.LIST_LEDGERS.replace("*", digest), header)
    ledger.record(ledger.rounds + 1)


def lists_of(run: pathlib.Path) -> list[tuple[LedgerHeader, int]]:
    """Returns the header and the number of lists for each noise setting.

    Raises `RunDirectoryError` if a ledger is damaged.
    """
    ledgers = [read_ledger(path) for path in sorted(run.glob(names.LIST_LEDGERS))]
    return [(header, len(lists)) for header, lists in ledgers]
