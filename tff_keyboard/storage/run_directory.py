"""A run directory: everything one training reads and leaves, and the names of it all.

    config.toml            the resolved config, written last: without it there is no run
    data_card.json         what the client store said of itself when the run began
    vocabulary.txt         words and normalisation rules
    environment.json       package versions, platform, commit, command
    checkpoints/           program/checkpoints.py
    metrics.jsonl, .csv    program/release.py, deterministic values only
    timings.csv            wall clock
    tensorboard/           the same metrics as scalars
    privacy_ledger.jsonl   what was released to whom, if the algorithm keeps one
    noise_nonce            of the privacy noise, mode 0600: as secret as the data
    model/                 weights, config and vocabulary of the trained model
    logs/                  output of the TFF workers
    lock                   held while a training runs

Imports neither TensorFlow nor TFF: every task after `train` opens one.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.program import errors
from tff_keyboard.storage import atomic_files

_PACKAGES = (
    *("tff-keyboard", "tensorflow", "tensorflow-federated", "tensorflow-privacy"),
    *("tensorflow-text", "dp-accounting", "numpy", "grpcio", "protobuf", "jax", "jaxlib"),
)


class RunDirectory:
    """Names of the parts of a run. Use `create` to train and `open` to read.

    Attributes: `path` and one for each part, all `pathlib.Path`: `config_path`,
    `data_card_path`, `vocabulary_path`, `environment_path`, `checkpoints`, `metrics_jsonl`,
    `metrics_csv`, `timings_csv`, `tensorboard`, `privacy_ledger`,
    `noise_nonce`, `model`, `logs`, `lock_path`.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)
        self.config_path = self.path / "config.toml"
        self.data_card_path = self.path / "data_card.json"
        self.vocabulary_path = self.path / "vocabulary.txt"
        self.environment_path = self.path / "environment.json"
        self.checkpoints = self.path / "checkpoints"
        self.metrics_jsonl = self.path / "metrics.jsonl"
        self.metrics_csv = self.path / "metrics.csv"
        self.timings_csv = self.path / "timings.csv"
        self.tensorboard = self.path / "tensorboard"
        self.privacy_ledger = self.path / "privacy_ledger.jsonl"
        self.noise_nonce = self.path / "noise_nonce"
        self.model = self.path / "model"
        self.logs = self.path / "logs"
        self.lock_path = self.path / "lock"
        self._lock_file: Any = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """An existing run, for reading.

        Raises:
          ProgramError: There is no run at `path`.
        """
        run = cls(path)
        if not run.exists():
            if not run.path.exists():
                problem = "does not exist"
            elif not run.path.is_dir():
                problem = "is a file"
            else:
                problem = f"has no {run.config_path.name}"
            nearby = [child.name for child in _children(run.path) if RunDirectory(child).exists()]
            hint = f" Did you mean {run.path / sorted(nearby)[0]}?" if nearby else ""
            raise errors.ProgramError(
                f"{run.path} is not a run directory: it {problem}. Give the directory that "
                f"`tff-keyboard train` wrote.{hint}"
            )
        return run

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        config_text: str,
        data_card_text: str,
        vocabulary_text: str | None = None,
        may_change: Sequence[str] = (),
        defaults_text: str = "",
    ) -> RunDirectory:
        """Creates a run or opens it to go on, and locks it until `close`.

        Args:
          path: A directory that is missing, empty or a run.
          config_text: The resolved config, TOML.
          data_card_text: The data card of the client store, JSON.
          vocabulary_text: Content of the vocabulary file, if the run keeps one.
          may_change: Dotted config keys that do not change what a round computes, such as
            `train.rounds`; a new value of theirs replaces the old.
          defaults_text: TOML of a config that sets nothing. A key that did not exist when the run
            began counts as its default: options are added so that nothing changes without them.

        Raises:
          ProgramError: Another training holds the run; the config or the data differ from those
            the run began with (names the keys); the directory holds other things; the disk is
            full or read-only.
        """
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise errors.ProgramError(f"{run.path} is a file. Give a directory for the run.")
        unknown = [child.name for child in _children(run.path) if child.name not in run._names()]
        if unknown and not run.exists():
            raise errors.ProgramError(
                f"{run.path} is not a run directory, but holds {sorted(unknown)[0]!r}. Give an "
                "empty or a new directory."
            )
        atomic_files.make_directory(run.path)
        run._lock()
        try:
            atomic_files.remove_leftovers(run.path)
            if run.exists():
                run._check_same(
                    config_text, data_card_text, vocabulary_text, may_change, defaults_text
                )
                run._warn_about_environment()
            else:
                run._write_text(run.data_card_path, data_card_text)
                if vocabulary_text is not None:
                    run._write_text(run.vocabulary_path, vocabulary_text)
                environment = json.dumps(describe_environment(), indent=2) + "\n"
                run._write_text(run.environment_path, environment)
            if not run.exists() or config_text != run.config_text():
                run._write_text(run.config_path, config_text)
        except BaseException:
            run.close()
            raise
        return run

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.config_path.is_file() and self.environment_path.is_file()

    def config_text(self) -> str:
        return _read_text(self.config_path)

    def data_card(self) -> dict[str, Any]:
        return json.loads(_read_text(self.data_card_path))

    def environment(self) -> dict[str, Any]:
        return json.loads(_read_text(self.environment_path))

    def close(self) -> None:
        """Gives the lock back. The kernel does it too when the process ends in any way."""
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *unused_exception) -> None:
        self.close()

    def _names(self) -> set[str]:
        parts = [value.name for value in vars(self).values() if isinstance(value, pathlib.Path)]
        return {*parts, *(part + atomic_files.TEMPORARY_SUFFIX for part in parts)}

    def _lock(self) -> None:
        try:
            file = self.lock_path.open("a+")
        except OSError as error:
            raise atomic_files.cannot_write(self.lock_path, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip()
            file.close()
            by = f" (process {holder})" if holder else ""
            raise errors.ProgramError(
                f"Another training{by} is using {self.path}. Wait for it, or give another "
                "directory."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        with contextlib.suppress(OSError):  # a full disk: the lock counts, not its text
            file.flush()
        self._lock_file = file

    def _check_same(
        self,
        config_text: str,
        data_card_text: str,
        vocabulary_text: str | None,
        may_change: Sequence[str],
        defaults_text: str,
    ) -> None:
        before = _flatten(tomllib.loads(defaults_text))
        before |= _flatten(tomllib.loads(self.config_text()))
        now = _flatten(tomllib.loads(config_text))
        _check_equal("config", self.config_path, before, now, may_change)
        now = _flatten(json.loads(data_card_text))
        _check_equal("data", self.data_card_path, _flatten(self.data_card()), now, ())
        if vocabulary_text is not None and _read_text(self.vocabulary_path) != vocabulary_text:
            raise errors.ProgramError(
                f"The vocabulary differs from {self.vocabulary_path}. Use the client store this "
                "run began with, or another run directory."
            )

    def _warn_about_environment(self) -> None:
        before, now = _flatten(self.environment()), _flatten(describe_environment())
        for key in before:
            if key.startswith(("packages.", "python")) and before[key] != now.get(key):
                warnings.warn(
                    f"This run began with {key} = {before[key]}, now it is {now.get(key)}: its "
                    "result may differ from one without a stop.",
                    stacklevel=4,
                )

    def _write_text(self, path: pathlib.Path, text: str) -> None:
        atomic_files.write_atomically(path, [text.encode()])


def describe_environment() -> dict[str, Any]:
    """Package versions, interpreter, platform, commit of the code (None outside git), command."""
    packages = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": packages,
        "commit": _commit(),
        "command": [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]],
        "started_utc": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    root = pathlib.Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None  # an installed package; a repository around it would be someone else's
    try:
        head = _git(root, "rev-parse", "HEAD")
        changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+changes" if changes else "")


def _git(root: pathlib.Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _children(path: pathlib.Path) -> list[pathlib.Path]:
    return list(path.iterdir()) if path.is_dir() else []


def _read_text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise errors.ProgramError(f"Cannot read {path}: {error.strerror}.") from error


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _check_equal(
    what: str, path: pathlib.Path, before: dict, now: dict, may_change: Sequence[str]
) -> None:
    for key in sorted({*before, *now}):
        if key in may_change or (key in before and key in now and before[key] == now[key]):
            continue
        old = repr(before[key]) if key in before else "not set"
        new = repr(now[key]) if key in now else "not set"
        raise errors.ProgramError(
            f"The {what} differs from {path}, with which this run began: `{key}` was "
            f"{_shorten(old)}, now it is {_shorten(new)}. Restore it, or use another run directory."
        )


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
