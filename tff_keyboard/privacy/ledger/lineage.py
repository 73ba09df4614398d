"""The history of a run's initial model: the earlier runs, with their ledgers and their clients.

A guarantee covers all releases about a client. A run that starts from a model adds to the releases
of that model if clients are in both. The ledger's header therefore records, for each run that led
to the initial model, whether it shares clients and which guarantee it has. The statement composes
them (`guarantee.py`), or states that there is no guarantee.

A path can later lead to another run: a directory is renamed and its name is used again, or a
relative path is read in another folder. So each run has a random id, and records the ids of the
runs that led to its initial model when it begins, and how many rounds they had released
(`origin.json`). A run that is not at its path any more counts with its recorded ledger, and its
clients count as shared. A run that was restored from a backup counts with the rounds that it had
released when a later run began.
"""

import dataclasses
import json
import pathlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.privacy.ledger import client_digests
from tff_keyboard.privacy.ledger.ledger import Round, contents, read_ledger, run_id_of_model
from tff_keyboard.privacy.ledger.ledger_header import Ancestor
from tff_keyboard.privacy.ledger.origin import EarlierRun, Origin, id_of_run, read_origin
from tff_keyboard.storage import files, names, toml, typed_json
from tff_keyboard.storage.errors import RunDirectoryError, SavedModelError
from tff_keyboard.storage.model_description import read_description
from tff_keyboard.storage.run_directory import RunDirectory


def record_origin(
    run: RunDirectory, unknown_weights: str = "", *, changes_client_work: bool = False
) -> None:
    """Writes `origin.json` of a run that begins, or was begun by an earlier version.

    A directory without results begins anew, also if an earlier start has left a record. A run that
    is resumed keeps its id, and its record only gets worse: what an earlier start said about other
    sources of weights and about validation stays.

    Args:
      run: The run, with its config.
      unknown_weights: As for `ancestors`.
      changes_client_work: See `Origin`.

    Raises:
      RunDirectoryError: If the record of a private run is lost, or the run was begun with another
        `changes_client_work`, so that other sums would have the noise of its rounds.
    """
    recorded = read_origin(run) if run.has_begun else None
    origin = recorded
    if origin is None:
        if not run.origin_path.exists() and run.privacy_ledger.exists():
            read_ledger(run.privacy_ledger)  # it has the id of its run
        origin = Origin(
            run_id=secrets.token_hex(16),
            earlier_runs=earlier_runs(initial_model_of(run)),
            changes_client_work=changes_client_work,
        )
    if origin.changes_client_work != changes_client_work:
        change = "changes" if origin.changes_client_work else "does not change"
        raise RunDirectoryError(
            f"{run.path} is the run of a command that {change} the work of clients, unlike this "
            "command (`attack` changes it). Continue it with the command that began it, or use "
            "another run directory."
        )
    new_sources = [one for one in _of_unknown(unknown_weights) if one not in origin.earlier_runs]
    origin = dataclasses.replace(
        origin,
        earlier_runs=[*origin.earlier_runs, *new_sources],
        chosen_by_validation=origin.chosen_by_validation or _is_chosen_by_validation(run),
    )
    if origin != recorded:
        text = json.dumps(typed_json.plain(origin), indent=2) + "\n"
        files.write_atomically(run.origin_path, [text.encode()])


def earlier_runs(initial_model: str) -> list[EarlierRun]:
    """Returns the runs that led to a model, the most recent first.

    The last one has no path if the model, or the initial model of its run, was in no run directory.
    """
    runs: list[EarlierRun] = []
    while initial_model:
        run = run_of(pathlib.Path(initial_model))
        path = "" if run is None else str(run.path.resolve())
        if (
            run is None
            or path in {earlier.path for earlier in runs}
            or not _is_model_of(run, pathlib.Path(initial_model))
        ):
            return [*runs, EarlierRun(model=initial_model)]
        origin = read_origin(run)
        run_id = "" if origin is None else origin.run_id
        tags: tuple[str, ...] = ()
        rounds: Sequence[Round] = ()
        if run.privacy_ledger.exists():
            _, rounds = read_ledger(run.privacy_ledger)
            tags = contents(rounds)
        runs.append(
            EarlierRun(
                model=initial_model,
                path=path,
                run_id=run_id,
                rounds=len(rounds),
                last_content=tags[-1] if tags else "",
            )
        )
        if origin is not None:
            return [*runs, *origin.earlier_runs]
        initial_model = initial_model_of(run)  # of an earlier version, which recorded nothing
    return runs


def _of_unknown(weights: str) -> list[EarlierRun]:
    return [EarlierRun(model=weights)] if weights else []


def _is_model_of(run: RunDirectory, model: pathlib.Path) -> bool:
    """Checks whether the model in a run directory is of this run, by its id.

    A model without an id is of a run without an id, of an earlier version. A run with an id writes
    it into its models, so another model was put there.
    """
    directory = model if model.name == names.LAST_MODEL else run.model
    model_id = run_id_of_model(directory)
    return model_id is None or model_id == id_of_run(run)


def ancestors(
    initial_model: str,
    *,
    ours: Sequence[client_digests.ClientDigests],
    store_sha256: str = "",
    unknown_weights: str = "",
) -> tuple[Ancestor, ...]:
    """Returns the runs that led to a model, the most recent first.

    Args:
      initial_model: A saved model or a run directory; "" returns ().
      ours: The clients of this run, under each salt that an earlier run may have used. Empty if
        they are unknown, as with devices.
      store_sha256: Hash of the client store of this run. Its clients of training are not clients of
        validation in an earlier run on the same store.
      unknown_weights: A source of further initial weights that may have been trained on any
        clients, such as a user's own model (`ModelOptions.unknown_weights`); "" for none.

    Raises:
      RunDirectoryError: If a ledger or a record of these runs is damaged.
      CheckFailed: If a ledger of these runs has lost lines.
    """
    recorded: dict[tuple[str, str], Ancestor] = {}  # by run id and path in the config
    ancestors: list[Ancestor] = []
    runs = [*earlier_runs(initial_model), *_of_unknown(unknown_weights)]
    for earlier in dict.fromkeys(runs):
        recorded_ancestor = _recorded_of(earlier, recorded)
        run = _run_at(earlier)
        if run is None:
            ancestors.append(_unseen(earlier, recorded_ancestor))
            continue
        ancestor = Ancestor(
            model=earlier.model,
            people=_overlap(run.client_digests, ours),
            run_id=earlier.run_id,
            rehearses=rehearses(run),
            validates=validates(run),
            same_store=_has_store(run, store_sha256),
        )
        # Noise protects users only: a rehearsed message may go to any number of them.
        may_have_rehearsed = (
            ancestor.rehearses
            and _overlap(run.rehearsed_client_digests, ours) != client_digests.NONE
        )
        tags: tuple[str, ...] = ()
        if run.privacy_ledger.exists():
            header, rounds = read_ledger(run.privacy_ledger)
            recorded |= {
                (earlier_ancestor.run_id, earlier_ancestor.model): dataclasses.replace(
                    earlier_ancestor, same_store=earlier_ancestor.same_store and ancestor.same_store
                )
                for earlier_ancestor in header.ancestors
            }
            if not may_have_rehearsed:
                # The returned list contains its ancestors, compared with our own clients.
                header = dataclasses.replace(header, ancestors=())
                tags = contents(rounds)
                ancestor = dataclasses.replace(
                    ancestor,
                    rounds=len(rounds),
                    header=header,
                    last_content=tags[-1] if tags else "",
                )
        ancestor = _at_least_rounds(ancestor, tags, earlier.rounds, earlier.last_content)
        ancestor = (
            ancestor if recorded_ancestor is None else _at_least(ancestor, tags, recorded_ancestor)
        )
        # The unit of devices is the text under a device key, and no store has it: a caveat says so.
        if ancestor.validates and ours and not ancestor.same_store:
            overlap = _overlap(run.validation_client_digests, ours)
            if overlap != client_digests.NONE:
                ancestor = _without_claim(ancestor)
        ancestors.append(ancestor)
    return tuple(ancestors)


def _recorded_of(
    earlier: EarlierRun, recorded: Mapping[tuple[str, str], Ancestor]
) -> Ancestor | None:
    """Returns the record of a run in the ledger of a later run, or None.

    The record has no id if an earlier version began one of the two runs. Then the path identifies
    the run, and `_at_least` compares the ledgers.
    """
    return recorded.get((earlier.run_id, earlier.model)) or recorded.get(("", earlier.model))


def validates(run: RunDirectory) -> bool:
    """Checks if metrics of a run's validation clients chose its model.

    Version 0.2.0 recorded no clients of validation, and no id in its ledgers. In later runs a
    missing record was removed, for example from a copy without the secret files.
    """
    origin = read_origin(run)
    chooses = _is_chosen_by_validation(run) or (origin is not None and origin.chosen_by_validation)
    if not chooses or run.validation_client_digests.exists():
        return chooses
    return run.privacy_ledger.exists() and bool(read_ledger(run.privacy_ledger)[0].run_id)


def _is_chosen_by_validation(run: RunDirectory) -> bool:
    train = toml.parse(run.config_text()).get("train", {})
    return train.get("final_model", "best") == "best" or bool(train.get("early_stop_patience", 0))


def _has_store(run: RunDirectory, store_sha256: str) -> bool:
    return bool(store_sha256) and run.store_sha256 == store_sha256


def _without_claim(ancestor: Ancestor) -> Ancestor:
    """Returns an ancestor whose model was chosen with the text of our clients."""
    return dataclasses.replace(
        ancestor, header=None, rounds=0, last_content="", validates_ours=True
    )


def _unseen(earlier: EarlierRun, ancestor: Ancestor | None) -> Ancestor:
    """Returns an ancestor that is not at its path any more, with the record of a later ledger."""
    if ancestor is None or ancestor.rehearses:  # its rehearsed clients may be ours
        return Ancestor(model=earlier.model, people=client_digests.UNKNOWN, run_id=earlier.run_id)
    ancestor = dataclasses.replace(ancestor, people=client_digests.UNKNOWN, validates_ours=False)
    if ancestor.validates and not ancestor.same_store:  # its validation clients may be ours
        return _without_claim(ancestor)
    return _at_least_rounds(ancestor, (), earlier.rounds, earlier.last_content)


def _at_least(ancestor: Ancestor, tags: Sequence[str], recorded: Ancestor) -> Ancestor:
    """Returns an ancestor that counts at least as much as the record of a later run's ledger.

    The directory may have been restored from a backup, or, in a run without an id, be another run.
    """
    if recorded.header is None and not recorded.rehearses and not recorded.validates_ours:
        is_same = (
            recorded.run_id == ancestor.run_id
        )  # otherwise nothing tells whether it is this run
        people = ancestor.people if is_same else client_digests.UNKNOWN
        return dataclasses.replace(ancestor, people=people, header=None, rounds=0, last_content="")
    if ancestor.header is None or recorded.header is None:
        return ancestor
    if ancestor.header != recorded.header:
        return dataclasses.replace(recorded, people=client_digests.UNKNOWN)
    return _at_least_rounds(ancestor, tags, recorded.rounds, recorded.last_content)


def _at_least_rounds(
    ancestor: Ancestor, tags: Sequence[str], rounds: int, last_content: str
) -> Ancestor:
    """Returns an ancestor with the recorded rounds, if its ledger does not continue from them.

    A ledger that was restored from a backup has fewer rounds, or other data in the same rounds. The
    initial model then comes from the recorded rounds.

    Args:
      ancestor: The ancestor, by its ledger.
      tags: Tags of the data of the rounds in its ledger, if its noise depends on tags.
      rounds: Recorded number of rounds.
      last_content: Recorded tag of the last of them.
    """
    if ancestor.header is None or rounds == 0:
        return ancestor
    has_same_data = last_content in ("", ancestor.last_content, *tags[rounds - 1 : rounds])
    if ancestor.rounds >= rounds and has_same_data:
        return ancestor
    return dataclasses.replace(ancestor, rounds=rounds, last_content=last_content)


def _run_at(earlier: EarlierRun) -> RunDirectory | None:
    """Returns the directory of a recorded run, or None if it is not at its path any more."""
    if not earlier.path:
        return None
    candidates = [RunDirectory(earlier.path), run_of(pathlib.Path(earlier.model))]
    for run in candidates:
        if run is not None and run.exists() and id_of_run(run) == earlier.run_id:
            return run
    return None


def run_of(path: pathlib.Path) -> RunDirectory | None:
    """Returns the run that contains a model, or None if the model is not in a run."""
    candidates = [path]
    if path.name in (names.MODEL, names.LAST_MODEL):
        candidates.append(path.parent)
    return next((run for run in map(RunDirectory, candidates) if run.exists()), None)


def continues_private_run(run: RunDirectory) -> bool:
    """Checks if any run that led to the initial model of a run was private."""
    origin = read_origin(run)
    earlier = earlier_runs(initial_model_of(run)) if origin is None else origin.earlier_runs
    return any(one.rounds or comes_from_private_run(pathlib.Path(one.model)) for one in earlier)


def is_private_model(directory: pathlib.Path) -> bool:
    """Returns whether a saved model says that it was trained with privacy; False without a model.

    A model of an earlier version says nothing.
    """
    return _description_of(directory).get("private") is True


def comes_from_private_run(directory: pathlib.Path) -> bool:
    """Checks if a saved model says that it, or a model before it, was trained with privacy."""
    return is_private_model(directory) or (
        _description_of(directory).get("continues_private_run") is True
    )


def _description_of(directory: pathlib.Path) -> Mapping[str, Any]:
    try:
        return read_description(directory)[1]
    except SavedModelError:  # such as an exported .tflite file, or before the first round
        return {}


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
    """Checks if the clients of a run may train on text of a general corpus.

    The config says so, or, if it is lost, the digests of the corpus's clients.
    """
    if run.rehearsed_client_digests.exists():
        return True
    table = toml.parse(run.config_text()).get("fine_tuning", {}) if run.exists() else {}
    return bool(table.get("general_store"))


def _overlap(path: pathlib.Path, ours: Sequence[client_digests.ClientDigests]) -> str:
    """Returns whether the clients of `path` are among ours: a word of `client_digests`."""
    theirs = client_digests.read(path)
    if theirs is None:
        return client_digests.UNKNOWN
    overlaps = [digests.overlap(theirs) for digests in ours]
    return next(
        (word for word in overlaps if word != client_digests.UNKNOWN), client_digests.UNKNOWN
    )
