"""The history of a run's initial model: the earlier runs, with their ledgers and their clients.

A guarantee covers all releases about a client. A run that starts from a model adds to the releases
of that model if clients are in both. The ledger's header therefore records, for each run that led
to the initial model, whether it shares clients and which guarantee it has. The statement composes
them (`guarantee.py`), or states that there is no guarantee.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.privacy.ledger.ledger import contents, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import Ancestor
from tff_keyboard.storage import names, toml
from tff_keyboard.storage.run_directory import RunDirectory


def ancestors(
    initial_model: str, *, ours: Sequence[client_digests.ClientDigests]
) -> tuple[Ancestor, ...]:
    """Returns the runs that led to a model, the most recent first.

    Args:
      initial_model: A saved model or a run directory; "" returns ().
      ours: The clients of this run, under each salt that an earlier run may have used.

    Raises:
      RunDirectoryError: If a ledger of these runs is damaged.
    """
    found: list[Ancestor] = []
    seen: set[pathlib.Path] = set()
    while initial_model:
        run = run_of(pathlib.Path(initial_model))
        if run is None or run.path.resolve() in seen:
            found.append(Ancestor(model=initial_model, people=client_digests.UNKNOWN))
            break
        seen.add(run.path.resolve())
        one = Ancestor(model=initial_model, people=_overlap(run.client_digests, ours))
        # Noise protects users only: a rehearsed message may go to any number of them.
        may_have_rehearsed = (
            rehearses(run) and _overlap(run.rehearsed_client_digests, ours) != client_digests.NONE
        )
        if run.privacy_ledger.exists() and not may_have_rehearsed:
            header, rounds = read_ledger(run.privacy_ledger)
            # The returned list contains its ancestors, compared with our own clients.
            header = dataclasses.replace(header, ancestors=())
            tags = contents(rounds)
            one = dataclasses.replace(
                one, rounds=len(rounds), header=header, last_content=tags[-1] if tags else ""
            )
        found.append(one)
        initial_model = initial_model_of(run)
    return tuple(found)


def run_of(path: pathlib.Path) -> RunDirectory | None:
    """Returns the run that contains a model, or None if the model is not in a run."""
    candidates = [path]
    if path.name in (names.MODEL, names.LAST_MODEL):
        candidates.append(path.parent)
    return next((run for run in map(RunDirectory, candidates) if run.exists()), None)


def initial_model_of(run: RunDirectory) -> str:
    """Returns `model.initial_model` of a run's config; "" for random weights."""
    return toml.parse(run.config_text()).get("model", {}).get("initial_model", "")


def ledger_of(model: pathlib.Path) -> pathlib.Path:
    """Returns the ledger of the run that contains a model.

    `model` is the run directory or the saved model in it.
    """
    run = run_of(model)
    return run.privacy_ledger if run is not None else RunDirectory(model).privacy_ledger


def rehearses(run: RunDirectory) -> bool:
    """Checks if the clients of a run may train on text of a general corpus."""
    table = toml.parse(run.config_text()).get("fine_tuning", {}) if run.exists() else {}
    return bool(table.get("general_store"))


def _overlap(path: pathlib.Path, ours: Sequence[client_digests.ClientDigests]) -> str:
    theirs = client_digests.read(path)
    if theirs is None:
        return client_digests.UNKNOWN
    known = [own.overlap(theirs) for own in ours]
    return next((word for word in known if word != client_digests.UNKNOWN), client_digests.UNKNOWN)
