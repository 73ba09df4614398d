"""A record of participation next to a store, which keeps the separation of clients across runs.

A run keeps its minimum separation by itself (`algorithms/cohorts.py`), but a client in the last
round of one run could be in the first round of the next. The private runs of a deployment therefore
write their cohorts to one file next to the store, and the next run excludes the clients of the last
rounds for a while.

The file is JSON lines, mode 0600, as secret as the data: run (the id of its noise key), round,
digests of the selected clients, id of their salt. When a run resumes, its rounds must be the last
ones in the file; otherwise clients could take part too early without notice. The clients that wait
at the start determine the cohorts of a run, so they are part of the facts of its noise key.
"""

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import RunDirectoryError

_SUFFIX = ".participation.jsonl"


def record_path(store: pathlib.Path) -> pathlib.Path:
    """Returns the path of a store's record: next to the store, so that a new `prepare` keeps it."""
    store = store.resolve()
    return store.with_name(store.name + _SUFFIX)


def cohorts_before(
    path: pathlib.Path, run: str | None, digests: Sequence[str], rounds: int, salt_id: str = ""
) -> list[np.ndarray]:
    """Returns the clients selected in the last `rounds` rounds of other runs before a run began.

    Args:
      path: The record.
      run: Id of the run's noise key, or None for a new run.
      digests: Digests of the store's clients, in the order of their positions.
      rounds: Number of rounds.
      salt_id: Id of the digests' salt (`people.People`).

    Returns:
      [selected] int64 positions for each round, sorted, without clients that are no longer in the
      store.

    Raises:
      RunDirectoryError: If the record is damaged, or one of these rounds has another salt.
    """
    lines = _read(path)
    before = lines[: _begin(lines, run)]
    before = before[-rounds:] if rounds > 0 else []
    other = next((line.run for line in before if line.salt and line.salt != salt_id), None)
    if other is not None:
        raise RunDirectoryError(
            f"{path}: run {other} had another `aggregation.privacy.noise_secret`, so this run "
            "cannot tell which clients must wait. Use that secret, or claim a separation only "
            'within this run: `aggregation.privacy.participation` = "off".'
        )
    position = {digest: number for number, digest in enumerate(digests)}
    return [
        np.array(sorted(position[d] for d in line.people if d in position), np.int64)
        for line in before
    ]


class ParticipationRecord:
    """The record from the view of one run; a `training.loop.training_loop.Hook`.

    `digests` are those of the store's clients, in the order of their positions, under the salt of
    `salt_id`. `selected` returns the positions in a round >= 1. Raises `RunDirectoryError` if the
    record is damaged, or another run has used the store since this one began.
    """

    def __init__(
        self,
        path: pathlib.Path,
        run: str,
        digests: Sequence[str],
        selected: Callable[[int], np.ndarray],
        salt_id: str = "",
    ):
        self._path = path
        self._salt_id = salt_id
        self._run = run
        self._digests = list(digests)
        self._selected = selected
        lines = _read(path)
        first = _begin(lines, run)
        later = [line.run for line in lines[first:] if line.run != run]
        if later:
            raise RunDirectoryError(
                f"Another run has used this store after this one started ({path.name} names it "
                f"{later[-1]}). If this run resumed, clients would take part again too early. "
                "Start a new run directory."
            )
        self._before = lines[:first]
        self._own = lines[first:]

    def restart_after(self, round_num: int) -> None:
        """Removes the run's later rounds, which will be repeated with the same clients."""
        if len(self._own) < round_num:
            raise RunDirectoryError(
                f"{self._path} has {len(self._own)} of the {round_num} rounds of this run, so "
                "clients would take part again too early. Restore it from a copy."
            )
        if len(self._own) > round_num:
            self._own = self._own[:round_num]
            lines = [_line(line) for line in (*self._before, *self._own)]
            files.write_atomically(self._path, lines, mode=files.OWNER_ONLY)

    def before_release(
        self, round_num: int, state: Any, metrics: Mapping[str, Any]
    ) -> Mapping[str, float]:
        """Writes the round's clients to disk. An error here prevents the release of the round."""
        del state, metrics
        people = sorted(self._digests[i] for i in self._selected(round_num))
        line = _Line(self._run, round_num, people, self._salt_id)
        files.append(self._path, _line(line), mode=files.OWNER_ONLY)
        self._own.append(line)
        return {}


def _begin(lines: Sequence["_Line"], run: str | None) -> int:
    """Returns the number of lines before the first line of a run."""
    return next((n for n, line in enumerate(lines) if line.run == run), len(lines))


class _Line(NamedTuple):
    """A line of the record, with the fields in the order of the file."""

    run: str
    round: int
    people: list[str]
    salt: str = ""  # "" in files of earlier versions


def _line(line: _Line) -> bytes:
    return json.dumps(line._asdict()).encode() + b"\n"


def _read(path: pathlib.Path) -> list[_Line]:
    if not path.exists():
        return []
    found = []
    lines = files.read_bytes(path).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # cut by a crash, before the round was released
        files.write_atomically(path, lines, mode=files.OWNER_ONLY)
    for number, text in enumerate(lines, start=1):
        try:
            line = _Line(**json.loads(text))
            sound = isinstance(line.people, list) and isinstance(line.run, str)
        except (ValueError, TypeError):
            sound = False
        if not sound:
            raise RunDirectoryError(
                f"{path} line {number} is damaged, so the participation of clients is unknown. "
                "Restore the file from a copy."
            )
        found.append(line)
    return found
