"""A run directory: everything one training reads and leaves, and the names of it all.

    config.toml            the resolved config, written last: without it there is no run
    data_card.json         what the client store said of itself when the run began
    vocabulary.txt         words and normalisation rules
    truecase.txt           their forms with capitals, where the store has any
    environment.json       package versions, platform, commit, command
    checkpoints/           program/rounds/checkpoints.py
    metrics.jsonl, .csv    program/rounds/release.py, deterministic values only
    withheld_metrics.jsonl of a private run: what metrics.jsonl leaves out, mode 0600: as secret
                           as the data
    timings.csv            wall clock
    tensorboard/           the same metrics as scalars
    privacy_ledger.jsonl   what was released to whom, if the algorithm keeps one
    list_ledger_*.jsonl    of word lists that were made of its people's text
    noise_nonce            of the privacy noise, mode 0600: as secret as the data
    people_digests         whose text was trained on, mode 0600: as secret as the data
    model/                 weights, config and vocabulary of the trained model
    model_last/            the same of the last iterate, where `model/` is an average
    evaluation_*.json      results of the task `evaluate`, by population
    logs/                  output of the TFF workers
    round_server/          of a run over devices: rounds, keys, what devices fetch, mode 0700
    lock                   held while a training runs

Imports neither TensorFlow nor TFF: every task after `train` opens one.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from tff_keyboard.storage import directories, environment, files, in_progress, metrics_rows, names
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.toml import tomllib


class RunDirectory:
    """Names of the parts of a run, each a `pathlib.Path`. Use `create` to train, `open` to read."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)
        self.config_path = self.path / names.CONFIG
        self.data_card_path = self.path / names.DATA_CARD
        self.vocabulary_path = self.path / names.VOCABULARY
        self.truecase_path = self.path / names.TRUECASE
        self.environment_path = self.path / names.ENVIRONMENT
        self.checkpoints = self.path / names.CHECKPOINTS
        self.metrics_jsonl = self.path / names.METRICS
        self.metrics_csv = self.path / names.METRICS_TABLE
        self.withheld_jsonl = self.path / names.WITHHELD_METRICS
        self.timings_csv = self.path / names.TIMINGS
        self.node_timings = self.path / names.NODE_TIMINGS
        self.tensorboard = self.path / names.TENSORBOARD
        self.privacy_ledger = self.path / names.LEDGER
        self.noise_nonce = self.path / names.NOISE_NONCE
        self.people = self.path / names.PEOPLE
        self.rehearsed_people = self.path / names.REHEARSED_PEOPLE
        self.model = self.path / names.MODEL
        self.last_model = self.path / names.LAST_MODEL
        self.logs = self.path / names.LOGS
        self.round_server = self.path / names.ROUND_SERVER
        self.lock_path = self.path / names.LOCK
        self._lock_file: IO[str] | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """An existing run, for reading. Raises `RunDirectoryError` if there is no run at `path`."""
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
            raise RunDirectoryError(
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
        truecase_text: str | None = None,
        may_change: Sequence[str] = (),
        of_this_version: Callable[[str, str], str] = lambda text, origin: text,
    ) -> "RunDirectory":
        """Creates a run in a new or empty directory or opens it to go on; locks it until `close`.

        Args:
          may_change: Dotted config keys that do not change what a round computes, such as
            `train.rounds`; a new value of theirs replaces the old.
          of_this_version: Turns the config text on disk, and its path, into what it would be now: a
            key that did not exist when the run began has its default.

        Raises:
          RunDirectoryError: Another training holds the run; the config or the data differ from
            those the run began with (names the keys); a file of it is damaged or a link; the
            directory holds other things.
          ProgramError: The disk is full or read-only.
        """
        run = cls(path)
        run._check_is_free()
        files.make_directory(run.path, mode=0o700)  # what is in it was learnt from people
        run._lock()
        try:
            run._remove_leftovers()
            if run.exists():
                text = of_this_version(run.config_text(), str(run.config_path))
                before = flatten(tomllib.loads(text))
                run._check_same(before, config_text, data_card_text, vocabulary_text, may_change)
                run._warn_about_environment()
            else:
                run._write_text(run.data_card_path, data_card_text)
                if vocabulary_text is not None:
                    run._write_text(run.vocabulary_path, vocabulary_text)
                if truecase_text:
                    run._write_text(run.truecase_path, truecase_text)
                run._write_environment()
            if not run.exists() or config_text != run.config_text():
                run._write_text(run.config_path, config_text)
        except BaseException:
            run.close()
            raise
        return run

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.config_path.is_file()

    @property
    def weights(self) -> pathlib.Path:
        """Weights of the trained model; the file is there once the training has ended."""
        return self.model / names.WEIGHTS

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.path.name or str(self.path)

    def config_text(self) -> str:
        """TOML.

        Raises `RunDirectoryError` if it is missing, cannot be read, is not UTF-8 or not TOML.
        """
        text = files.read_text(self.config_path)
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise files.damaged(self.config_path, f"it is not TOML ({error})") from None
        return text

    def data_card(self) -> dict[str, Any]:
        """What the client store said of itself when the run began."""
        return files.read_json(self.data_card_path)

    def environment(self) -> dict[str, Any]:
        """What `environment.describe` found when the run began."""
        return files.read_json(self.environment_path)

    def rows(self) -> list[metrics_rows.Row]:
        """The metrics of each round so far; none before the first.

        Raises `RunDirectoryError` if the file is damaged, or missing though rounds were done.
        """
        if not self.metrics_jsonl.exists() and self._has_results():
            raise RunDirectoryError(
                f"{self.metrics_jsonl} is missing though rounds were done. Restore it, or run the "
                "training again with the same command: it computes the rounds again."
            )
        return metrics_rows.read_rows(self.metrics_jsonl)

    def all_rows(self) -> list[metrics_rows.Row]:
        """`rows`, with what a private run withholds from them: as secret as the data."""
        rows = self.rows()
        if not self.withheld_jsonl.exists():
            return rows
        withheld = metrics_rows.read_rows(self.withheld_jsonl)
        return [row | secret for row, secret in zip(rows, withheld, strict=False)]

    def evaluation_path(self, population: str, digest: str = "") -> pathlib.Path:
        """Where the result of an evaluation is kept; see `names.evaluation`."""
        return self.path / names.evaluation(population, digest)

    def close(self) -> None:
        """Gives the lock back. The kernel does it too when the process ends in any way."""
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *unused_exception: object) -> None:
        self.close()

    def _parts(self) -> list[pathlib.Path]:
        return [value for value in vars(self).values() if isinstance(value, pathlib.Path)][1:]

    def _has_results(self) -> bool:
        parts = (self.metrics_jsonl, self.privacy_ledger, self.model)
        return any(part.exists() for part in parts) or bool(_children(self.checkpoints))

    def _check_is_free(self) -> None:
        """Raises unless the directory is missing, empty, or a run that may be resumed."""
        if self.path.exists() and not self.path.is_dir():
            raise RunDirectoryError(f"{self.path} is a file. Give a directory for the run.")
        known = {part.name for part in self._parts()}
        others = {child.name for child in _children(self.path)} - known
        unknown = [name for name in others if not in_progress.is_leftover_name(name)]
        if unknown and not self.exists():
            raise RunDirectoryError(
                f"{self.path} is not a run directory, but holds {sorted(unknown)[0]!r}. Give an "
                "empty or a new directory."
            )
        if not self.exists() and self._has_results():
            raise RunDirectoryError(
                f"{self.config_path} is missing though rounds were done: nobody can tell whether "
                "this config would go on with them. Restore it, or use another run directory."
            )
        for part in self._parts():
            if part.is_symlink() and not part.is_dir():
                raise RunDirectoryError(
                    f"{part} is a link to a file; a run keeps its own files. Put the file itself "
                    "there, or use another run directory."
                )

    def _remove_leftovers(self) -> None:
        """Removes leftovers of a training that was killed while it wrote; the lock is held."""
        in_progress.remove_all_leftovers(self.path)
        for model in (self.model, self.last_model):
            directories.restore(model)
            directories.remove_leftovers(model)
        in_progress.remove_all_leftovers(self.checkpoints)

    def _lock(self) -> None:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = open(os.open(self.lock_path, flags, 0o666), "r+")  # noqa: PTH123, SIM115
        except OSError as error:
            raise files.cannot_write(self.lock_path, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = file.read().strip()
            file.close()
            by = f" (process {holder})" if holder else ""
            raise RunDirectoryError(
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
        before: Mapping[str, Any],
        config_text: str,
        data_card_text: str,
        vocabulary_text: str | None,
        may_change: Sequence[str],
    ) -> None:
        now = flatten(tomllib.loads(config_text))
        _check_equal("config", self.config_path, before, now, may_change)
        now = flatten(json.loads(data_card_text))
        _check_equal("data", self.data_card_path, flatten(self.data_card()), now, ())
        if vocabulary_text is not None and files.read_text(self.vocabulary_path) != vocabulary_text:
            raise RunDirectoryError(
                f"The vocabulary differs from {self.vocabulary_path}. Use the client store this "
                "run began with, or another run directory."
            )

    def _warn_about_environment(self) -> None:
        if not self.environment_path.exists():
            self._write_environment()
        before, now = flatten(self.environment()), flatten(environment.describe())
        for key in before:
            if key.startswith(("packages.", "python")) and before[key] != now.get(key):
                warnings.warn(
                    f"This run began with {key} = {before[key]}, now it is {now.get(key)}: its "
                    "result may differ from one without a stop.",
                    stacklevel=4,
                )

    def _write_environment(self) -> None:
        text = json.dumps(environment.describe(), indent=2) + "\n"
        self._write_text(self.environment_path, text)

    def _write_text(self, path: pathlib.Path, text: str) -> None:
        files.write_atomically(path, [text.encode()])


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, keys joined by dots.

    >>> flatten({"a": {"b": 1, "c": {}}, "d": [2]})
    {'a.b': 1, 'd': [2]}
    """
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _children(path: pathlib.Path) -> list[pathlib.Path]:
    return list(path.iterdir()) if path.is_dir() else []


def _check_equal(
    what: str,
    path: pathlib.Path,
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    may_change: Sequence[str],
) -> None:
    for key in sorted({*before, *now}):
        if key in may_change or (key in before and key in now and before[key] == now[key]):
            continue
        old = repr(before[key]) if key in before else "not set"
        new = repr(now[key]) if key in now else "not set"
        raise RunDirectoryError(
            f"The {what} differs from {path}, with which this run began: `{key}` was "
            f"{_shorten(old)}, now it is {_shorten(new)}. Restore it, or use another run directory."
        )


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
