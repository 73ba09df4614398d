"""A record beside the store of who took part when, which keeps people apart across runs, too.

A run keeps its minimum separation by itself (`federated/learning/cohorts.py`), but a person in the
last round of one run could be in the first of the next. So private runs of a deployment note their
cohorts in one file beside the store, and the next run lets the people of the last rounds wait.

JSON lines, mode 0600, as secret as the data: run (the id of its noise key), round, digests of the
people selected, what names their salt. A run's rounds must be the last of the file when it goes on,
or people would take part too early unnoticed. Who waits at the beginning decides the cohorts of a
run, so it is one of the facts of its noise key.
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
    """Path of a store's record: beside it, so that preparing it anew keeps it."""
    store = store.resolve()
    return store.with_name(store.name + _SUFFIX)


def cohorts_before(
    path: pathlib.Path, run: str | None, digests: Sequence[str], rounds: int, salt_id: str = ""
) -> list[np.ndarray]:
    """Who was selected in the last `rounds` rounds of other runs before a run began.

    `run` is the id of its noise key, None of a run that begins; `digests` are of the store's
    people, in the order of their positions, under the salt of `salt_id` (`people.People`).
    [selected] int64 positions a round, sorted, without those who are not in the store any more.
    Raises `RunDirectoryError` if the record is damaged, or one of these rounds has another salt.
    """
    lines = _read(path)
    before = lines[: _begin(lines, run)]
    before = before[-rounds:] if rounds > 0 else []
    other = next((line.run for line in before if line.salt and line.salt != salt_id), None)
    if other is not None:
        raise RunDirectoryError(
            f"{path}: run {other} had another `aggregation.privacy.noise_secret`, so nobody can "
            "tell which people have to wait. Give that secret, or claim a separation within this "
            'run alone: `aggregation.privacy.participation` = "off".'
        )
    position = {digest: number for number, digest in enumerate(digests)}
    return [
        np.array(sorted(position[d] for d in line.people if d in position), np.int64)
        for line in before
    ]


class ParticipationRecord:
    """The record as one run sees it; a `program.rounds.training_loop.Hook`.

    `digests` are of the store's people, in the order of their positions, under the salt of
    `salt_id`; `selected` gives the positions of a round >= 1. Raises `RunDirectoryError` if the
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
                f"Another run has used this store since this one began ({path.name} names it "
                f"{later[-1]}): going on, people would take part again too early. Begin a new run "
                "directory."
            )
        self._before = lines[:first]
        self._own = lines[first:]

    def restart_after(self, round_num: int) -> None:
        """Forgets the run's later rounds, which will be run again with the same people."""
        if len(self._own) < round_num:
            raise RunDirectoryError(
                f"{self._path} has {len(self._own)} of the {round_num} rounds that this run has "
                "done: their people would take part again too early. Restore it from a copy."
            )
        if len(self._own) > round_num:
            self._own = self._own[:round_num]
            lines = [_line(line) for line in (*self._before, *self._own)]
            files.write_atomically(self._path, lines, mode=files.OWNER_ONLY)

    def before_release(
        self, round_num: int, state: Any, metrics: Mapping[str, Any]
    ) -> Mapping[str, float]:
        """Writes the round's people to disk; an error here keeps the round unreleased."""
        del state, metrics
        people = sorted(self._digests[i] for i in self._selected(round_num))
        line = _Line(self._run, round_num, people, self._salt_id)
        files.append(self._path, _line(line), mode=files.OWNER_ONLY)
        self._own.append(line)
        return {}


def _begin(lines: Sequence["_Line"], run: str | None) -> int:
    """How many lines are before the first one of a run."""
    return next((n for n, line in enumerate(lines) if line.run == run), len(lines))


class _Line(NamedTuple):
    """Of the record; its fields in the order of the file."""

    run: str
    round: int
    people: list[str]
    salt: str = ""  # "": of a version that did not say


def _line(line: _Line) -> bytes:
    return json.dumps(line._asdict()).encode() + b"\n"


def _read(path: pathlib.Path) -> list[_Line]:
    if not path.exists():
        return []
    found = []
    lines = files.read_bytes(path).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # torn by a crash, before the round was released
        files.write_atomically(path, lines, mode=files.OWNER_ONLY)
    for number, text in enumerate(lines, start=1):
        try:
            line = _Line(**json.loads(text))
            sound = isinstance(line.people, list) and isinstance(line.run, str)
        except (ValueError, TypeError):
            sound = False
        if not sound:
            raise RunDirectoryError(
                f"{path} line {number} is damaged: who took part when cannot be known. Restore the "
                "file from a copy."
            )
        found.append(line)
    return found
