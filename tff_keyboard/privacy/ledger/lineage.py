"""The history of a run's initial model: the earlier runs, with their ledgers and their clients.

A guarantee covers all releases about a client. A run that starts from a model adds to the releases
of that model if clients are in both. The ledger's header therefore records, for each run that led
to the initial model, whether it shares clients and which guarantee it has. The statement composes
them (`guarantee.py`), or states that there is no guarantee.

A path can later lead to another run: a directory is renamed and its name is used again, or a
relative path is read in another folder. So each run has a random id, and records the ids of the
runs that led to its initial model when it begins (`origin.json`). A run that is not at its path any
more counts with its recorded ledger, and its clients count as shared.
"""

import dataclasses
import json
import pathlib
import secrets
from collections.abc import Sequence
from typing import Any

from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.privacy.ledger.ledger import contents, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import Ancestor
from tff_keyboard.storage import files, names, toml, typed_json
from tff_keyboard.storage.run_directory import RunDirectory


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """A run that led to an initial model, as recorded when a later run began.

    Attributes:
      model: Its path, as in the config of the later run.
      path: The absolute path of the run directory; "" if the model was in no run directory.
      run_id: Its random id; "" if it has none, because an earlier version began it.
    """

    model: str
    path: str = ""
    run_id: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """The content of `origin.json`."""

    run_id: str
    earlier_runs: list[EarlierRun] = dataclasses.field(default_factory=list)  # newest first


def record_origin(run: RunDirectory) -> None:
    """Writes `origin.json` of a run that begins, or was begun by an earlier version.

    A directory without results begins anew, also if an earlier start has left a record.
    """
    if run.origin_path.exists() and run.has_begun:
        return
    origin = Origin(run_id=secrets.token_hex(16), earlier_runs=earlier_runs(initial_model_of(run)))
    text = json.dumps(typed_json.plain(origin), indent=2) + "\n"
    files.write_atomically(run.origin_path, [text.encode()])


def read_origin(run: RunDirectory) -> Origin | None:
    """Returns the record of `record_origin`, or None if the run has none.

    Raises `RunDirectoryError` if it is damaged.
    """
    if not run.origin_path.exists():
        return None
    try:
        content: Any = files.read_json(run.origin_path)
        origin: Origin = typed_json.read(Origin, content, "origin")
    except ValueError as error:
        raise files.damaged(run.origin_path, str(error)) from None
    return origin


def earlier_runs(initial_model: str) -> list[EarlierRun]:
    """Returns the runs that led to a model, the most recent first.

    The last one has no path if the model, or the initial model of its run, was in no run directory.
    """
    runs: list[EarlierRun] = []
    while initial_model:
        run = run_of(pathlib.Path(initial_model))
        path = "" if run is None else str(run.path.resolve())
        if run is None or path in {earlier.path for earlier in runs}:
            return [*runs, EarlierRun(model=initial_model)]
        origin = read_origin(run)
        run_id = "" if origin is None else origin.run_id
        runs.append(EarlierRun(model=initial_model, path=path, run_id=run_id))
        if origin is not None:
            return [*runs, *origin.earlier_runs]
        initial_model = initial_model_of(run)  # of an earlier version, which recorded nothing
    return runs


def ancestors(
    initial_model: str, *, ours: Sequence[client_digests.ClientDigests]
) -> tuple[Ancestor, ...]:
    """Returns the runs that led to a model, the most recent first.

    Args:
      initial_model: A saved model or a run directory; "" returns ().
      ours: The clients of this run, under each salt that an earlier run may have used.

    Raises:
      RunDirectoryError: If a ledger or a record of these runs is damaged.
      CheckFailed: If a ledger of these runs has lost lines.
    """
    recorded: dict[tuple[str, str], Ancestor] = {}  # by run id and path in the config
    found: list[Ancestor] = []
    for earlier in earlier_runs(initial_model):
        known = recorded.get((earlier.run_id, earlier.model))
        run = _run_at(earlier)
        if run is None:
            found.append(_unseen(earlier, known))
            continue
        one = Ancestor(
            model=earlier.model,
            people=_overlap(run.client_digests, ours),
            run_id=earlier.run_id,
            rehearses=rehearses(run),
        )
        # Noise protects users only: a rehearsed message may go to any number of them.
        may_have_rehearsed = (
            one.rehearses and _overlap(run.rehearsed_client_digests, ours) != client_digests.NONE
        )
        if run.privacy_ledger.exists():
            header, rounds = read_ledger(run.privacy_ledger)
            recorded |= {(one.run_id, one.model): one for one in header.ancestors}
            if not may_have_rehearsed:
                # The returned list contains its ancestors, compared with our own clients.
                header = dataclasses.replace(header, ancestors=())
                tags = contents(rounds)
                one = dataclasses.replace(
                    one, rounds=len(rounds), header=header, last_content=tags[-1] if tags else ""
                )
        found.append(one if known is None else _at_least(one, known))
    return tuple(found)


def _unseen(earlier: EarlierRun, known: Ancestor | None) -> Ancestor:
    """Returns an ancestor that is not at its path any more, with the record of a later ledger."""
    if known is None or known.rehearses:  # its rehearsed clients may be ours
        return Ancestor(model=earlier.model, people=client_digests.UNKNOWN, run_id=earlier.run_id)
    return dataclasses.replace(known, people=client_digests.UNKNOWN)


def _at_least(one: Ancestor, known: Ancestor) -> Ancestor:
    """Returns an ancestor that counts at least as much as the record of a later run's ledger.

    The directory may have been restored from a backup, or, in a run without an id, be another run.
    """
    if known.header is None and not known.rehearses:
        return dataclasses.replace(one, header=None, rounds=0, last_content="")
    if one.header is None or known.header is None:
        return one
    if one.header != known.header:
        return dataclasses.replace(known, people=client_digests.UNKNOWN)
    return one if one.rounds >= known.rounds else dataclasses.replace(known, people=one.people)


def _run_at(earlier: EarlierRun) -> RunDirectory | None:
    """Returns the directory of a recorded run, or None if it is not at its path any more."""
    if not earlier.path:
        return None
    candidates = [RunDirectory(earlier.path), run_of(pathlib.Path(earlier.model))]
    for run in candidates:
        if run is not None and run.exists():
            origin = read_origin(run)
            if (origin.run_id if origin else "") == earlier.run_id:
                return run
    return None


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
