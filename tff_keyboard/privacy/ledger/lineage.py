"""What a run's initial model has seen: the runs before it, with their ledgers and their people.

A guarantee is about everything that is known of a person. A run that starts from a model adds to
what that model gave away, if people are in both. So the ledger's header records, for each run that
lies behind the initial model, whether it shares people and what it claims; the statement composes
(`guarantee.py`), or claims nothing.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

from tff_keyboard.privacy.ledger import people as people_lib
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.privacy.ledger.ledger_header import Ancestor
from tff_keyboard.privacy.ledger.list_releases import lists_of
from tff_keyboard.storage import names
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.storage.toml import tomllib


def ancestors(initial_model: str, *, ours: Sequence[people_lib.People]) -> tuple[Ancestor, ...]:
    """The runs behind a model, the youngest first.

    `ours` are its people, under each salt that a run before it may have used. Raises
    `RunDirectoryError` if a ledger behind the model is damaged.
    """
    found: list[Ancestor] = []
    seen: set[pathlib.Path] = set()
    while initial_model:
        run = run_of(pathlib.Path(initial_model))
        if run is None or run.path.resolve() in seen:
            found.append(Ancestor(model=initial_model, people=people_lib.UNKNOWN))
            break
        seen.add(run.path.resolve())
        one = Ancestor(model=initial_model, people=_overlap(run.people, ours))
        # Noise is for users: of who is rehearsed a message goes to any number of them.
        if run.privacy_ledger.exists() and not _may_have_rehearsed(run, ours):
            header, rounds = read_ledger(run.privacy_ledger)
            # This list has its ancestors, compared with our own people.
            header = dataclasses.replace(header, ancestors=())
            one = dataclasses.replace(one, rounds=len(rounds), header=header)
        found.append(one)
        found += [
            Ancestor(model=f"a word list of {initial_model}", people=one.people, rounds=n, header=h)
            for h, n in lists_of(run.path)
        ]
        initial_model = initial_model_of(run)
    return tuple(found)


def run_of(path: pathlib.Path) -> RunDirectory | None:
    """The run that a model lies in; None: it lies in none, so nobody knows where it comes from."""
    candidates = [path]
    if path.name in (names.MODEL, names.LAST_MODEL):
        candidates.append(path.parent)
    return next((run for run in map(RunDirectory, candidates) if run.exists()), None)


def initial_model_of(run: RunDirectory) -> str:
    """What a run began with, `model.initial_model` of its config; "" for random weights."""
    return tomllib.loads(run.config_text()).get("model", {}).get("initial_model", "")


def ledger_of(model: pathlib.Path) -> pathlib.Path:
    """Ledger of the run that a model lies in, whether the run or the saved model in it is named."""
    run = run_of(model)
    return run.privacy_ledger if run is not None else RunDirectory(model).privacy_ledger


def rehearses(run: RunDirectory) -> bool:
    """Whether its clients may train on text of a general corpus beside their own."""
    table = tomllib.loads(run.config_text()).get("fine_tuning", {}) if run.exists() else {}
    return bool(table.get("general_store"))


def _may_have_rehearsed(run: RunDirectory, ours: Sequence[people_lib.People]) -> bool:
    return rehearses(run) and _overlap(run.rehearsed_people, ours) != people_lib.NONE


def _overlap(path: pathlib.Path, ours: Sequence[people_lib.People]) -> str:
    theirs = people_lib.read(path)
    if theirs is None:
        return people_lib.UNKNOWN
    known = [own.overlap(theirs) for own in ours]
    return next((word for word in known if word != people_lib.UNKNOWN), people_lib.UNKNOWN)
