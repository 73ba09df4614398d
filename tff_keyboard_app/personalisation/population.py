"""Personalises for the users of a population of a client store, and resumes after a stop.

clients.jsonl           one result a line (`records`)
personalisation.json    the report, after all users are done
"""

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING

import numpy as np

from tff_keyboard.evaluation.counts.typed_text import check_rules
from tff_keyboard.host.progress import Progress
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import DataError
from tff_keyboard_app.personalisation.on_device import MIN_MESSAGES, Settings
from tff_keyboard_app.personalisation.person import Personaliser
from tff_keyboard_app.personalisation.records import Records
from tff_keyboard_app.personalisation.report import Summary
from tflite_export.runtime.hybrid_keyboard import Keyboard

if TYPE_CHECKING:
    from tff_keyboard.data.store.client_store import ClientStore  # imports TensorFlow

CLIENTS, OLD_CLIENTS = "clients.jsonl", "people.jsonl"  # now, and in version 0.2.0
RESULT = "personalisation.json"


def drawn_clients(
    store: "ClientStore", population: str, *, max_clients: int, seed: int
) -> list[str]:
    """Returns users with enough messages, in a seeded order.

    A larger `max_clients` extends the list of a smaller one.

    Raises:
      DataError: If there are no such users.
    """
    counts = store.num_messages(population)
    able = [
        client
        for client, count in zip(store.client_ids(population), counts, strict=True)
        if count >= MIN_MESSAGES
    ]
    if not able:
        raise DataError(
            f"{store.directory}: no client of '{population}' has {MIN_MESSAGES} messages. "
            "Choose another population with --clients."
        )
    order = np.random.default_rng(seed).permutation(len(able))
    return [able[index] for index in order[:max_clients]]


def personalise_clients(
    keyboard: Keyboard,
    store: "ClientStore",
    population: str,
    settings: Settings,
    out: pathlib.Path,
    *,
    max_clients: int,
    seed: int,
) -> Summary:
    """Trains and measures the users who are not in `out` yet, and reports on all.

    Raises:
      ExportError: If the file cannot train.
      DataError: If the store's words were cut by other rules, no user has enough messages, or `out`
        is of a run with other facts.
      ProgramError: If `out` cannot be written.
    """
    check_rules(store, keyboard.vocabulary.rules)
    personaliser = Personaliser(keyboard, settings)
    clients = drawn_clients(store, population, max_clients=max_clients, seed=seed)
    files.make_directory(out)
    mixture = keyboard.manifest.mixture
    facts = {
        "model": keyboard.manifest.model.sha256,
        "mixture": dataclasses.asdict(mixture) if mixture else None,
        "store": store.card_hash,
        "clients": population,
        "settings": dataclasses.asdict(settings),
    }
    records = Records(names.path_in(out, CLIENTS, OLD_CLIENTS), facts, store.pseudonym)
    waiting = sorted((p for p in clients if p not in records), key=store.pseudonym)
    with Progress("personalise", total=len(clients), unit="clients") as line:
        num_done = len(clients) - len(waiting)
        line.start_from(num_done)
        for number, client in enumerate(waiting, start=1):
            records.add(client, personaliser.person(store.words(population, client)))
            line.update(num_done + number)
    records.sort()
    summary = Summary(records.of(clients))
    content = json.dumps({**facts, **summary.to_json()}, indent=1)
    files.write_atomically(out / RESULT, [content.encode()], mode=files.OWNER_ONLY)
    return summary
