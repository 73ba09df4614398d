"""The privacy ledger: the cost of every released round, on disk before the round's model.

The file has one JSON object per line: the run (`LedgerHeader`), then the release of each round. A
line contains a SHA-256 over itself and the previous line, so that edited, missing or repeated lines
are detected. `record` returns only when the line is on disk (fsync), and the training loop calls it
before it publishes the round's model. After a crash the ledger may contain a round that was never
released, but never the reverse.

On resume the loop rolls the ledger back to the restored round. This is sound only because the noise
depends only on (key, round): the repeated rounds release the same bits.
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

FORMAT = 6

Round: TypeAlias = dict[str, float]  # one line: "round", and the facts given to `record`


class PrivacyLedger:
    """The ledger of a run. Appends rounds to `path` and reads them back.

    `path` is `privacy_ledger.jsonl` of the run directory. A missing file is created with its
    header. Raises `RunDirectoryError` if the file is damaged, or was written for another header.

    >>> import tempfile
    >>> from tff_keyboard.privacy.mechanisms.mechanism import Gaussian
    >>> header = LedgerHeader(mechanism=Gaussian(), aggregator="mean", noise_multiplier=1.0,
    ...     clip_norm=0.5, delta=1e-6, population=100, clients_per_round=10,
    ...     selected_per_round=10, sampling="fixed_size", uniform_sampling=True,
    ...     secret_cohorts=True, min_separation_rounds=1)
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
                self._rewrite()  # a crash cut the last line, so its round was never released
        else:
            self._lines = [_line("", {"format": FORMAT} | tables.plain(header))]
            self._rewrite()

    @property
    def rounds(self) -> int:
        """Number of recorded rounds. The first round is 1."""
        return len(self._lines) - 1

    def record(self, round_num: int, **facts: float) -> None:
        """Appends round `rounds + 1` and returns once it is on disk.

        Args:
          round_num: The round.
          **facts: Numbers to record, such as `clip_norm` and `clients`.

        Raises:
          ValueError: If `round_num` is not the next round.
          ProgramError: If the line could not be written. The model must then not be released.
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
        """Removes the rounds after `round_num`, which will be repeated.

        Raises `RunDirectoryError` if the ledger has fewer rounds: it then misses a released model.
        """
        if round_num > self.rounds:
            raise RunDirectoryError(
                f"{self._path.name} records {self.rounds} rounds but the run resumes after round "
                f"{round_num}: rounds are missing, so no privacy statement can be made. "
                "Restore the ledger next to the checkpoints, or start a new run directory."
            )
        if round_num < self.rounds:
            del self._lines[round_num + 1 :]
            self._rewrite()

    def _rewrite(self) -> None:
        files.make_directory(self._path.parent)
        files.write_atomically(self._path, self._lines)


def read_ledger(path: pathlib.Path) -> tuple[LedgerHeader, list[Round]]:
    """Returns the header and the rounds of a ledger.

    Raises `RunDirectoryError` if the file is missing or damaged. The error names the line.
    """
    path = pathlib.Path(path)
    if not path.exists():
        raise RunDirectoryError(
            f"No {path.name} in {path.parent}: this run made no privacy claim. "
            "Set `aggregation.privacy` and train."
        )
    lines, header = _read(path)
    return header, [_body(line) for line in lines[1:]]


def refuse_shared_noise(paths: Sequence[pathlib.Path]) -> None:
    """Rejects releases with the same noise key, because their noise cancels.

    Ignores ledgers that do not exist and repeated paths. Raises `RunDirectoryError` if two ledgers
    have the same `key_id`.
    """
    seen: dict[str, pathlib.Path] = {}
    for path in dict.fromkeys(pathlib.Path(path).resolve() for path in paths):
        if not path.exists():
            continue
        header, _ = read_ledger(path)
        if header.key_id and header.key_id in seen:
            raise RunDirectoryError(
                f"{seen[header.key_id].parent} and {path.parent} share a noise key "
                f"({header.key_id}): anyone with both models can cancel the noise, so neither has "
                "a guarantee. Keep one of them, or train the other again in a new run directory."
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
        lines.pop()  # an incomplete line: the process died while writing it, before the release
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
                "is unreliable. Restore the file from a copy, or start a new run directory."
            )
        previous = _digest(line)
    if not lines:
        raise RunDirectoryError(f"{path.name} is empty. Restore it, or start a new run directory.")
    body = _body(lines[0])
    if body.pop("format", None) != FORMAT:
        raise RunDirectoryError(
            f"{path}: another version wrote it: its format is not {FORMAT}. Use that version."
        )
    try:
        return lines, tables.build(LedgerHeader, body)
    except ConfigError as error:
        raise RunDirectoryError(
            f"{path}: line 1: {error} If you did not edit it, another version wrote it. Use that "
            "version."
        ) from None


def _difference(path: pathlib.Path, on_disk: LedgerHeader, wanted: LedgerHeader) -> str:
    changed = [
        f"{field.name} {getattr(on_disk, field.name)!r} -> {getattr(wanted, field.name)!r}"
        for field in dataclasses.fields(LedgerHeader)
        if getattr(on_disk, field.name) != getattr(wanted, field.name)
    ]
    return (
        f"{path.name} was started with other privacy settings ({'; '.join(changed)}). "
        "Resume with the run's own config, or start a new run directory."
    )
