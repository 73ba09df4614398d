"""The privacy ledger: what every released round cost, on disk before the model is.

One JSON object a line: the run (`LedgerHeader`), then the release of each round. A line carries the
SHA-256 of itself and of the line before, so that an edited, missing or repeated line is found.
`record` returns only when the line is on disk (fsync), and the training loop calls it before it
publishes the round's model: after a crash the ledger may know a round that nobody saw, never the
other way round.

On resume the loop rolls the ledger back to the round it restores. That is honest only because noise
is a pure function of (key, round): the rounds run again release the same bits.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tff_keyboard.config.reading import tables
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ConfigError, RunDirectoryError

FORMAT = 5

Round: TypeAlias = dict[str, float]  # of a line: "round", and what `record` was told of it


class PrivacyLedger:
    """Appends rounds to `path` and reads them back.

    `path` is `privacy_ledger.jsonl` of the run directory, made with its header where absent. Raises
    `RunDirectoryError` if it is damaged, or was written for another header.

    >>> import tempfile
    >>> from tff_keyboard.privacy.mechanisms.mechanism import Gaussian
    >>> header = LedgerHeader(mechanism=Gaussian(), aggregator="mean", noise_multiplier=1.0,
    ...     clip_norm=0.5, delta=1e-6, population=100, clients_per_round=10,
    ...     selected_per_round=10, sampling="fixed_size", uniform_sampling=True,
    ...     secret_cohorts=True, min_separation_rounds=1, max_participations=0)
    >>> ledger = PrivacyLedger(pathlib.Path(tempfile.mkdtemp()) / "ledger.jsonl", header)
    >>> ledger.record(1, clip_norm=0.5, clients=10)
    >>> ledger.rounds
    1
    """

    def __init__(self, path: pathlib.Path, header: LedgerHeader):
        self._path = pathlib.Path(path)
        self._header = header
        if self._path.exists():
            lines, on_disk = _read(self._path)
            if on_disk != header:
                raise RunDirectoryError(_difference(self._path, on_disk, header))
            self._lines = lines
            if files.read_bytes(self._path) != b"".join(lines):
                self._rewrite()  # the last line was torn by a crash: it was never released
        else:
            self._lines = [_line("", {"format": FORMAT} | tables.plain(header))]
            self._rewrite()

    @property
    def rounds(self) -> int:
        """Rounds recorded; the last one has this number, the first is 1."""
        return len(self._lines) - 1

    def record(self, round_num: int, **facts: float) -> None:
        """Appends round `rounds + 1`, or raises `ValueError`, and returns once it is on disk.

        `facts` are numbers worth keeping, such as `clip_norm` and `clients`. Raises `ProgramError`
        if the line could not be written: the model must not be released.
        """
        if round_num != self.rounds + 1:
            raise ValueError(
                f"`round_num` must be {self.rounds + 1}, the next round of {self._path.name}, "
                f"got {round_num}."
            )
        line = _line(_digest(self._lines[-1]), {"round": round_num} | facts)
        files.append(self._path, line)
        self._lines.append(line)

    def roll_back_to(self, round_num: int) -> None:
        """Forgets the rounds after `round_num`, which are about to be run again.

        Raises `RunDirectoryError` if the ledger knows fewer: a model was released that it misses.
        """
        if round_num > self.rounds:
            raise RunDirectoryError(
                f"{self._path.name} records {self.rounds} rounds but the run resumes after round "
                f"{round_num}: rounds are missing, so no privacy statement can be made. "
                "Restore the ledger beside the checkpoints, or start a new run directory."
            )
        if round_num < self.rounds:
            del self._lines[round_num + 1 :]
            self._rewrite()

    def _rewrite(self) -> None:
        files.make_directory(self._path.parent)
        files.write_atomically(self._path, self._lines)


def read_ledger(path: pathlib.Path) -> tuple[LedgerHeader, list[Round]]:
    """The header and the rounds of a finished or running ledger.

    Raises `RunDirectoryError` if there is no such file, or it is damaged; it names the line.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise RunDirectoryError(
            f"No {path.name} in {path.parent}: this run made no privacy claim. "
            "Set a mechanism of privacy and train."
        )
    lines, header = _read(path)
    return header, [_body(line) for line in lines[1:]]


def refuse_shared_noise(paths: Sequence[pathlib.Path]) -> None:
    """Refuses releases that were noised by one key: their noise cancels.

    Ledgers that do not exist are passed over, one path may occur twice. Raises `RunDirectoryError`
    if two have one `key_id`.
    """
    seen: dict[str, pathlib.Path] = {}
    for path in dict.fromkeys(pathlib.Path(path).resolve() for path in paths):
        if not path.exists():
            continue
        header, _ = read_ledger(path)
        if header.key_id and header.key_id in seen:
            raise RunDirectoryError(
                f"{seen[header.key_id].parent} and {path.parent} have one noise key "
                f"({header.key_id}): whoever has both models can cancel the noise, so neither has "
                "a guarantee. Keep one, or train the other again in a new run directory."
            )
        seen[header.key_id] = path


def _line(previous_digest: str, body: Mapping[str, Any]) -> bytes:
    content = dict(body) | {"previous": previous_digest}
    content["checksum"] = _checksum(content)
    return (json.dumps(content, sort_keys=True, allow_nan=False) + "\n").encode()


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps({k: v for k, v in content.items() if k != "checksum"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _body(line: bytes) -> dict[str, Any]:
    content = json.loads(line)
    return {k: v for k, v in content.items() if k not in ("previous", "checksum")}


def _read(path: pathlib.Path) -> tuple[list[bytes], LedgerHeader]:
    lines = files.read_bytes(path).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # half a line: the process died while appending, before any release
    previous = ""
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            sound = (
                isinstance(content, dict)
                and content.get("checksum") == _checksum(content)
                and content.get("previous") == previous
                and (number == 1 or content.get("round") == number - 1)
            )
        except ValueError:
            sound = False
        if not sound:
            raise RunDirectoryError(
                f"{path.name} line {number} is damaged or out of order: the recorded privacy cost "
                "cannot be trusted. Restore the file from a copy, or start a new run directory."
            )
        previous = _digest(line)
    if not lines:
        raise RunDirectoryError(f"{path.name} is empty. Restore it, or start a new run directory.")
    body = _body(lines[0])
    if body.pop("format", None) != FORMAT:
        raise RunDirectoryError(
            f"{path}: another version wrote it, not of format {FORMAT}: use that one."
        )
    try:
        return lines, tables.build(LedgerHeader, body)
    except ConfigError as error:
        raise RunDirectoryError(
            f"{path}: line 1: {error} If nobody edited it, another version wrote it: use that one."
        ) from None


def _difference(path: pathlib.Path, on_disk: LedgerHeader, wanted: LedgerHeader) -> str:
    changed = [
        f"{field.name} {getattr(on_disk, field.name)!r} -> {getattr(wanted, field.name)!r}"
        for field in dataclasses.fields(LedgerHeader)
        if getattr(on_disk, field.name) != getattr(wanted, field.name)
    ]
    return (
        f"{path.name} was begun with other privacy settings ({'; '.join(changed)}). "
        "Resume with the run's own config, or start a new run directory."
    )
