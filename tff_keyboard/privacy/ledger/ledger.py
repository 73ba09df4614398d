"""The privacy ledger: the cost of every released round, on disk before the round's model.

The file has one JSON object per line: the run (`LedgerHeader`), then the release of each round. A
line contains a SHA-256 over itself and the previous line, so that edited or repeated lines, and
lines that are missing in the middle, are detected. `record` returns only when the line is on disk
(fsync), and the training loop calls it before it publishes the round's model. After a crash the
ledger may contain a round that was never released, but never the reverse.

The ledger never gets shorter. A run that resumes from an earlier round repeats the later rounds,
and their lines remain, because these rounds may have been released. The number of lines is thus the
largest number of rounds that the run has ever released. A repeated round must have the same line,
because its noise depends only on the key, the round and its data: the same bits are released again.
Lines that are missing at the end are detected by a comparison with the models, metrics and
checkpoints of the run (`check_ledger_is_complete`). A ledger or a model that was copied from
another run is detected by the id of the run and the hash of its client store (`check_is_of_run`).
"""

import dataclasses
import hashlib
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tff_keyboard.parts import tables
from tff_keyboard.privacy.ledger.ledger_header import EVALUATION, NEW_WORDS, LedgerHeader
from tff_keyboard.privacy.ledger.origin import id_of_run
from tff_keyboard.storage import files, json_text, names
from tff_keyboard.storage.errors import CheckFailed, ConfigError, RunDirectoryError
from tff_keyboard.storage.model_description import check_root_of_run
from tff_keyboard.storage.run_directory import RunDirectory

FORMAT = 6

RUN_ID = "run_id"  # key of `model.json`, and of the settings of sums of devices
# Aggregator of a ledger of sums of devices -> its settings, and its name in words
_SUMS = {
    EVALUATION: (names.EVALUATION_ON_DEVICES, "evaluation"),
    NEW_WORDS: (names.NEW_WORDS_ON_DEVICES, "search for words"),
}
CONTENT = "content"  # the tag of a round's data; only if the noise key does not determine the data

# One line: "round", the numbers given to `record`, and `CONTENT`
Round: TypeAlias = dict[str, Any]


class PrivacyLedger:
    """The ledger of a run. Appends rounds to `path` and reads them back.

    `path` is `privacy_ledger.jsonl` of the run directory. A missing file is created with its
    header. Raises `RunDirectoryError` if the file is damaged, or was written for another header.

    >>> import tempfile
    >>> from tff_keyboard.privacy.registry.gaussian import Gaussian
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
        self._newest_round = self.rounds

    @property
    def rounds(self) -> int:
        """Number of recorded rounds, the largest that the run ever had. The first round is 1."""
        return len(self._lines) - 1

    def record(self, round_num: int, *, content: str = "", **facts: float) -> None:
        """Records the next round and returns once it is on disk.

        Args:
          round_num: The round: the one after the last call, or after `restart_after`.
          content: Tag of the round's data, if the noise depends on one.
          **facts: Numbers to record, such as `clip_norm` and `clients`.

        Raises:
          ValueError: If `round_num` is not the next round.
          RunDirectoryError: If this round was recorded before, with other data or other noise. It
            would be a second release, which no line of the ledger covers.
          ProgramError: If the line could not be written. The model must then not be released.
        """
        if round_num != self._newest_round + 1:
            raise ValueError(
                f"`round_num` must be {self._newest_round + 1}, the next round of "
                f"{self._path.name}, got {round_num}."
            )
        body = {"round": round_num} | facts | ({CONTENT: content} if content else {})
        if round_num <= self.rounds:
            self._check_repeated(body)
        else:
            line = _line(_digest(self._lines[-1]), body)
            files.append(self._path, line)
            self._lines.append(line)
        self._newest_round = round_num

    def restart_after(self, round_num: int) -> None:
        """Continues after `round_num`. The recorded rounds after it will be repeated.

        Raises `RunDirectoryError` if the ledger has fewer rounds: it then misses a released model.
        """
        if round_num > self.rounds:
            raise RunDirectoryError(
                f"{self._path.name} records {self.rounds} rounds but the run resumes after round "
                f"{round_num}: rounds are missing, so no privacy statement can be made. "
                "Restore the ledger next to the checkpoints, or start a new run directory."
            )
        self._newest_round = round_num

    def _check_repeated(self, body: Round) -> None:
        """Checks that a repeated round equals its line. Another machine may round its numbers."""
        recorded = _body(self._lines[body["round"]])
        is_equal = recorded.keys() == body.keys() and all(
            value == recorded[name]
            or (name != CONTENT and math.isclose(value, recorded[name], rel_tol=1e-5))
            for name, value in body.items()
        )
        if not is_equal:
            raise RunDirectoryError(
                f"Round {body['round']} was released before with other data or another clip norm, "
                f"as {self._path.name} shows. A second release of this round is not covered by the "
                "privacy statement. Restore the data of the first release, or start a new run "
                "directory and count both runs with tff-keyboard privacy RUN RUN."
            )

    def _rewrite(self) -> None:
        files.make_directory(self._path.parent)
        files.write_atomically(self._path, self._lines)


def read_ledger(path: pathlib.Path) -> tuple[LedgerHeader, list[Round]]:
    """Returns the header and the rounds of a ledger: every round that was ever released.

    Raises:
      RunDirectoryError: If the file is missing or damaged. The error names the line.
      CheckFailed: If something in the ledger's folder shows more rounds than the ledger, or a
        private run has lost its ledger; or if ledger and model are not of the same run.
    """
    path = pathlib.Path(path)
    if not path.exists():
        run = RunDirectory(path.parent)
        if not run.path.exists():
            raise RunDirectoryError(f"{run.path} does not exist. Pass a run directory.")
        if run.declares_privacy and run.newest_result()[1]:
            raise CheckFailed(
                f"{path} is missing, but the run trained with privacy: no privacy statement can be "
                "made. Restore the ledger from a copy."
            )
        if run.settings_of_sums:
            raise RunDirectoryError(
                f"NO CLAIM: no {path.name} in {path.parent}, because its sums of devices have no "
                "noise. For a claim, start a new folder with --noise-multiplier."
            )
        raise RunDirectoryError(
            f"No {path.name} in {path.parent}: this run made no privacy claim. "
            "Set `aggregation.privacy` and train."
        )
    lines, header = _read(path)
    rounds = [_body(line) for line in lines[1:]]
    check_is_of_run(path, header)
    check_ledger_is_complete(path, len(rounds))
    return header, rounds


def check_ledger_is_complete(path: pathlib.Path, num_rounds: int) -> None:
    """Checks that no model, metric or checkpoint next to a ledger is of a later round.

    Raises `CheckFailed` otherwise: lines at the end of the ledger are lost, and a statement from it
    would be too small.
    """
    file, rounds = RunDirectory(path.parent).newest_result()
    if rounds > num_rounds:
        raise CheckFailed(
            f"{path} records {num_rounds} rounds, but {file} is of round {rounds}: lines of the "
            "ledger are lost, so no privacy statement can be made. Restore the ledger from a copy, "
            "or use a new run directory."
        )


def check_is_of_run(path: pathlib.Path, header: LedgerHeader) -> None:
    """Checks that a ledger, and the models next to it, are of the run in the same folder.

    A folder without a run passes if its models, if any, have the ledger's id: a ledger may be kept
    alone, to count a lost run. Ledgers and models of earlier versions have no id, so only the hash
    of the client store is compared.

    Raises `CheckFailed` otherwise: a statement would be about another run.
    """
    check_root_of_run(path.parent)
    run = RunDirectory(path.parent)
    if header.is_of_sums and (run.exists() or run.model.exists()):
        raise CheckFailed(
            f"{path} is the ledger of sums of devices, which covers no model. Remove it from the "
            "directory of the training."
        )
    _check_is_of_sums(path, header)
    run_id = id_of_run(run) if run.exists() else header.run_id
    way_out = "Restore the files of this run from a copy, or use another run directory."
    if header.run_id and header.run_id != run_id:
        origin = f"{run.origin_path} has another id" if run_id else f"{run.origin_path} is missing"
        raise CheckFailed(f"{path} has the id of a run, but {origin}. {way_out}")
    has_both = header.store_sha256 and run.data_card_path.exists()
    if has_both and run.store_sha256 != header.store_sha256:
        raise CheckFailed(
            f"{path} is the ledger of a run with another client store than {run.data_card_path}. "
            f"{way_out}"
        )
    for model in (run.model, run.last_model):
        model_id = run_id_of_model(model)
        if model_id is not None and model_id != run_id and (model_id or header.run_id):
            raise CheckFailed(
                f"{model / names.MODEL_DESCRIPTION} is the model of another run, so the ledger "
                f"{path} does not cover it. {way_out}"
            )


def _check_is_of_sums(path: pathlib.Path, header: LedgerHeader) -> None:
    """Checks that the ledger and the settings of sums of devices are of one evaluation or search.

    Passes if there are neither settings nor results next to the ledger.
    """
    for aggregator, (name, what) in _SUMS.items():
        settings_path = path.parent / name
        way_out = f"Restore the files of this {what} from a copy."
        if not settings_path.is_file():
            if header.aggregator == aggregator and RunDirectory(path.parent).newest_result()[1]:
                raise CheckFailed(
                    f"{settings_path} is missing, so nothing shows that {path.name} is the ledger "
                    f"of this {what}. {way_out}"
                )
            continue
        settings = files.read_json(settings_path)
        recorded = settings if isinstance(settings, dict) else {}
        expected = (aggregator, recorded.get(RUN_ID), recorded.get("noise_multiplier"))
        if (header.aggregator, header.run_id, header.noise_multiplier) != expected:
            raise CheckFailed(
                f"{path} is not the ledger of the {what} of {settings_path}: its id or its noise "
                f"multiplier is another. {way_out}"
            )


def run_id_of_model(directory: pathlib.Path) -> str | None:
    """Returns the id of the run that trained a saved model; None if there is no readable model.

    Returns "" for a model without an id: of an earlier version, or not from a run.
    """
    path = directory / names.MODEL_DESCRIPTION
    if not path.exists():
        return None
    try:
        run_id = files.read_json(path).get(RUN_ID, "")
    except RunDirectoryError:
        return None
    return run_id if isinstance(run_id, str) else ""


def contents(rounds: Sequence[Round]) -> tuple[str, ...]:
    """Returns the tag of each round's data, or () if the noise does not depend on the data."""
    return tuple(entry[CONTENT] for entry in rounds) if all(CONTENT in x for x in rounds) else ()


def refuse_shared_noise(paths: Sequence[pathlib.Path]) -> None:
    """Rejects releases with the same noise key, because their noise cancels.

    Two branches of a fleet's run, one of which was restored from a backup, have the same key. Their
    noise depends on the uploads (`noise_content.py`), so it does not cancel. Ignores ledgers that
    do not exist and repeated paths. Raises `RunDirectoryError` if two other ledgers have the same
    `key_id`.
    """
    seen: dict[str, pathlib.Path] = {}
    for path in dict.fromkeys(pathlib.Path(path).resolve() for path in paths):
        if not path.exists():
            continue
        header, rounds = read_ledger(path)
        if contents(rounds):
            continue
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
    content = json_text.parse(line)
    return {k: v for k, v in content.items() if k not in ("previous", "checksum")}


def _read(path: pathlib.Path) -> tuple[list[bytes], LedgerHeader]:
    """Returns the complete lines of a ledger, and its header.

    Raises `RunDirectoryError` if a line is damaged, missing or out of order.
    """
    lines = files.read_bytes(path).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # an incomplete line: the process died while writing it, before the release
    previous = ""
    for number, line in enumerate(lines, start=1):
        try:
            content = json_text.parse(line)
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


def _difference(path: pathlib.Path, on_disk: LedgerHeader, expected: LedgerHeader) -> str:
    changed = [
        f"{field.name} {getattr(on_disk, field.name)!r} -> {getattr(expected, field.name)!r}"
        for field in dataclasses.fields(LedgerHeader)
        if getattr(on_disk, field.name) != getattr(expected, field.name)
    ]
    return (
        f"{path.name} was started with other privacy settings ({'; '.join(changed)}). "
        "Resume with the run's own config, or start a new run directory."
    )
