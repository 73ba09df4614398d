"""Word lists made of the text of a run's people: further releases, beside its rounds.

A list is one release of a Gaussian mechanism to which everybody contributed
(`tflite_export/export/aosp_part.py`). Each setting of noise has a ledger of its own in the run's
directory, with a line for each list; whoever accounts for the run counts them.
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
    """What one list over so many people costs, in the terms of a round.

    Delta, vocabulary and store of `run`, the run's header, count for the list, too.
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
        key_id="",  # nobody keeps the key
        noise_cohort_size=0,
        records_participation=False,
        initial_model="",
        ancestors=(),
    )


def record(run: pathlib.Path, header: LedgerHeader) -> None:
    """Puts one more list, of `list_header`, on disk, before it is released.

    Raises `ProgramError` if it cannot be written: the list must not be released; and
    `RunDirectoryError` if the ledger of these settings is damaged.
    """
    facts = json.dumps(tables.plain(header), sort_keys=True).encode()
    digest = hashlib.sha256(facts).hexdigest()[:16]
    ledger = PrivacyLedger(run / names.LIST_LEDGERS.replace("*", digest), header)
    ledger.record(ledger.rounds + 1)


def lists_of(run: pathlib.Path) -> list[tuple[LedgerHeader, int]]:
    """Header and number of the lists of each setting; a `RunDirectoryError` if one is damaged."""
    ledgers = [read_ledger(path) for path in sorted(run.glob(names.LIST_LEDGERS))]
    return [(header, len(lists)) for header, lists in ledgers]
