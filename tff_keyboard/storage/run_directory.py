"""A run directory: the inputs and results of one training, and their names.

    config.toml            the resolved config, written last: a directory without it is not a run
    data_card.json         description of the client store when the run began
    vocabulary.txt         words and normalisation rules
    truecase.txt           capitalised forms of the words, if the store has any
    environment.json       package versions, platform, commit, command
    own_parts.json         source of each part of the config that is not in this package, if any
    origin.json            a random id of the run, and the runs that led to its initial model
    checkpoints/           written by training/loop/checkpoints.py
    metrics.jsonl, .csv    written by training/loop/release.py, deterministic values only
    withheld_metrics.jsonl of a private run: metrics that must stay secret, mode 0600
    timings.csv            wall-clock times
    tensorboard/           the same metrics as scalars
    privacy_ledger.jsonl   releases and their noise, if the algorithm keeps a ledger
    noise_nonce            of the privacy noise, mode 0600: as secret as the data
    client_digests         digests of the trained clients, mode 0600: as secret as the data
    validation_client_digests  the same of the clients of validation
    model/                 weights, config and vocabulary of the trained model
    model_last/            the same for the last iterate, if `model/` is an average
    evaluation_*.json      results of the task `evaluate`, one for each population
    round_server/          of a run over devices: rounds, keys and device downloads, mode 0700
    lock                   locked while a training runs

Imports neither TensorFlow nor TFF, because every task after `train` opens a run.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from tff_keyboard.storage import (
    directories,
    environment,
    files,
    in_progress,
    json_text,
    metrics_rows,
    names,
    toml,
)
from tff_keyboard.storage.errors import RunDirectoryError

GROUPS_OF_DEVICES = "groups of devices"  # unit of the comparison of an evaluation on devices


class RunDirectory:
    """A run on disk: the paths of its parts and access to its files.

    Use `create` to train and `open` to read.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)
        self.config_path = self.path / names.CONFIG
        self.data_card_path = self.path / names.DATA_CARD
        self.vocabulary_path = self.path / names.VOCABULARY
        self.truecase_path = self.path / names.TRUECASE
        self.environment_path = self.path / names.ENVIRONMENT
        self.own_parts_path = self.path / names.OWN_PARTS
        self.origin_path = self.path / names.ORIGIN
        self.checkpoints = self.path / names.CHECKPOINTS
        self.metrics_jsonl = self.path / names.METRICS
        self.metrics_csv = self.path / names.METRICS_TABLE
        self.withheld_jsonl = self.path / names.WITHHELD_METRICS
        self.timings_csv = self.path / names.TIMINGS
        self.tensorboard = self.path / names.TENSORBOARD
        self.privacy_ledger = self.path / names.LEDGER
        self.noise_nonce = self.path / names.NOISE_NONCE
        self.client_digests = names.path_in(
            self.path, names.CLIENT_DIGESTS, names.OLD_CLIENT_DIGESTS
        )
        self.rehearsed_client_digests = names.path_in(
            self.path, names.REHEARSED_CLIENT_DIGESTS, names.OLD_REHEARSED_CLIENT_DIGESTS
        )
        self.validation_client_digests = self.path / names.VALIDATION_CLIENT_DIGESTS
        self.model = self.path / names.MODEL
        self.last_model = self.path / names.LAST_MODEL
        self.round_server = self.path / names.ROUND_SERVER
        self.lock_path = self.path / names.LOCK
        self._lock_file: IO[str] | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """Opens an existing run for reading.

        Raises `RunDirectoryError` if `path` is not a run.
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
            raise RunDirectoryError(
                f"{run.path} is not a run directory: it {problem}. Pass the directory that "
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
        own_parts: Mapping[str, Any] | None = None,
        may_change: Sequence[str] = (),
        of_this_version: Callable[[str, str], str] = lambda text, origin: text,
    ) -> "RunDirectory":
        """Creates a run in a new or empty directory, or opens it to resume. Locks it until `close`.

        Args:
          path: The directory.
          config_text: The resolved config, as TOML.
          data_card_text: The card of the client store, as JSON.
          vocabulary_text: Content of `vocabulary.txt`, if the run has one.
          truecase_text: Content of `truecase.txt`, if the run has one.
          own_parts: Key of the config -> reference, version and SHA-256 of the part that it names.
          may_change: Dotted config keys that do not change the result of a round, such as
            `train.rounds`. Their new values replace the old ones.
          of_this_version: Converts the config text on disk, given also its path, to the current
            version: adds the default of each key that did not exist when the run began.

        Raises:
          RunDirectoryError: If another training has locked the run; if the config or the data
            differ from those of the run (the error names the keys); if a part is damaged or is a
            link; or if the directory contains other files.
          ProgramError: If the disk is full or read-only.
        """
        run = cls(path)
        run._check_is_free()
        files.make_directory(run.path, mode=0o700)  # its content was learnt from private text
        run._lock()
        try:
            run._remove_leftovers()
            if run.exists():
                text = of_this_version(run.config_text(), str(run.config_path))
                before = flatten(toml.parse(text))
                run._check_same(before, config_text, data_card_text, vocabulary_text, may_change)
                run._check_own_parts(own_parts or {})
                run._warn_about_environment()
            else:
                run._write_text(run.data_card_path, data_card_text)
                if vocabulary_text is not None:
                    run._write_text(run.vocabulary_path, vocabulary_text)
                if truecase_text:
                    run._write_text(run.truecase_path, truecase_text)
                if own_parts:
                    text = json.dumps(own_parts, indent=2, sort_keys=True) + "\n"
                    run._write_text(run.own_parts_path, text)
                run._write_environment()
            if not run.exists() or config_text != run.config_text():
                run._write_text(run.config_path, config_text)
        except BaseException:
            run.close()
            raise
        return run

    def exists(self) -> bool:
        """Checks if the directory contains a run."""
        return self.config_path.is_file()

    @property
    def declares_privacy(self) -> bool:
        """Whether the run's config has a mechanism of differential privacy, so a ledger must exist.

        An evaluation or a search for words on devices declares privacy if its sums have noise.
        False without a config.
        """
        if not self.exists():
            settings = self.settings_of_sums
            recorded = files.read_json(settings) if settings else {}
            return isinstance(recorded, dict) and bool(recorded.get("noise_multiplier"))
        aggregation = toml.parse(self.config_text()).get("aggregation", {})
        return aggregation.get("privacy", {}).get("type", "none") != "none"

    @property
    def weights(self) -> pathlib.Path:
        """Weights of the trained model. The file exists once the training has ended."""
        return self.model / names.WEIGHTS

    @property
    def name(self) -> str:
        """Name of the directory."""
        return self.path.name or str(self.path)

    def config_text(self) -> str:
        """Returns the resolved config, as TOML.

        Raises `RunDirectoryError` if it is missing, cannot be read, is not UTF-8 or is not TOML.
        """
        text = files.read_text(self.config_path, max_bytes=files.MAX_TABLE_BYTES)
        try:
            toml.parse(text)
        except toml.InvalidTomlError as error:
            raise files.damaged(self.config_path, f"it is not valid TOML ({error})") from None
        return text

    def data_card(self) -> dict[str, Any]:
        """Returns the description of the client store when the run began."""
        return files.read_json(self.data_card_path)

    @property
    def store_sha256(self) -> str:
        """Hash of the client store when the run began; "" without a data card."""
        return self.data_card().get("store_sha256", "") if self.data_card_path.exists() else ""

    def environment(self) -> dict[str, Any]:
        """Returns the result of `environment.describe` when the run began."""
        return files.read_json(self.environment_path)

    def rows(self) -> list[metrics_rows.Row]:
        """Returns the metrics of each finished round, or an empty list before the first round.

        Raises `RunDirectoryError` if the file is damaged, or is missing although rounds were
        finished.
        """
        if not self.metrics_jsonl.exists() and self._has_results():
            raise RunDirectoryError(
                f"{self.metrics_jsonl} is missing, but rounds were completed. Restore it, or run "
                "the training again with the same command, which computes the rounds again."
            )
        return metrics_rows.read_rows(self.metrics_jsonl)

    def all_rows(self) -> list[metrics_rows.Row]:
        """Returns `rows` together with the withheld metrics of a private run.

        The result is as secret as the data.
        """
        rows = self.rows()
        if not self.withheld_jsonl.exists():
            return rows
        withheld = metrics_rows.read_rows(self.withheld_jsonl)
        return [row | secret for row, secret in zip(rows, withheld, strict=False)]

    @property
    def has_begun(self) -> bool:
        """Whether the directory has a finished round, or the ledger of a private run."""
        return self.privacy_ledger.exists() or self.newest_result()[1] > 0

    @property
    def settings_of_sums(self) -> pathlib.Path | None:
        """Settings of the evaluation, or the search for words, on devices; None without one."""
        paths = [self.path / name for name in names.SETTINGS_OF_SUMS]
        return next((path for path in paths if path.is_file()), None)

    def newest_result(self) -> tuple[pathlib.Path, int]:
        """Returns the file with the newest round among metrics, checkpoints and models.

        In the folder of an evaluation or a search for words, the groups of devices are the rounds.

        Reads files that may be damaged, and skips them. Returns `(path, 0)` without any.
        """
        rounds = {}
        for path in (self.metrics_jsonl, self.withheld_jsonl):
            rows = metrics_rows.read_sound_rows(path)
            rounds[path] = metrics_rows.round_of(rows[-1]) if rows else 0
        for path in (self.metrics_csv, self.timings_csv):
            rounds[path] = _last_round_of_table(path)
        for file in _children(self.checkpoints):
            rounds[file] = names.round_of_checkpoint(file.name) or 0
        for model in (self.model, self.last_model):
            description = model / names.MODEL_DESCRIPTION
            with contextlib.suppress(RunDirectoryError):
                trained = files.read_json(description).get("rounds") if model.is_dir() else None
                rounds[description] = trained if isinstance(trained, int) else 0
        groups = self.path / names.GROUPS_OF_DEVICES
        rounds[groups] = files.read_bytes(groups).count(b"\n") if groups.is_file() else 0
        for name in (names.COMPARISON, names.COMPARISON_WITH_OWN_WORDS):
            rounds[self.path / name] = _groups_of_comparison(self.path / name)
        newest = max(rounds, key=lambda file: rounds[file])
        return newest, rounds[newest]

    def evaluation_path(self, population: str, digest: str = "") -> pathlib.Path:
        """Returns the path of an evaluation's result; see `names.evaluation`."""
        return self.path / names.evaluation(population, digest)

    def close(self) -> None:
        """Releases the lock. The kernel also releases it when the process ends."""
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
        """Raises unless the directory is missing, empty, or a run that can be resumed."""
        if self.path.exists() and not self.path.is_dir():
            raise RunDirectoryError(f"{self.path} is a file. Pass a directory for the run.")
        part_names = {part.name for part in self._parts()}
        other_names = {child.name for child in _children(self.path)} - part_names
        unknown = [name for name in other_names if not in_progress.is_leftover_name(name)]
        if unknown and not self.exists():
            raise RunDirectoryError(
                f"{self.path} is not a run directory, but has {sorted(unknown)[0]!r} in it. Pass "
                "an empty or a new directory."
            )
        if not self.exists() and self._has_results():
            raise RunDirectoryError(
                f"{self.config_path} is missing, but rounds were completed. Without it, a resumed "
                "run could use a different config. Restore it, or use another run directory."
            )
        self._check_parts()
        for model in (self.model, self.last_model):
            try:
                directories.check_replaceable(model, names.MODEL_FILES)
            except OSError as error:
                raise RunDirectoryError(f"{model} cannot be replaced: {error.strerror}.") from None

    def _check_parts(self) -> None:
        """Raises if a part, or something in it, is neither a regular file nor a directory.

        A run directory of another user could have a link to a folder of this user, which training
        would change, or a pipe, for which it would wait.
        """
        for part in self._parts():
            inside = (
                pathlib.Path(folder, name)
                for folder, folders, file_names in os.walk(part)
                for name in (*folders, *file_names)
            )
            for path in (part, *inside):
                if path.is_symlink():
                    raise RunDirectoryError(
                        f"{path} is a link, but a run needs files and folders of its own. Copy its "
                        "target there, or use another run directory."
                    )
                if path.exists() and not (path.is_file() or path.is_dir()):
                    raise RunDirectoryError(
                        f"{path} is neither a regular file nor a directory. Remove it, or use "
                        "another run directory."
                    )

    def _remove_leftovers(self) -> None:
        """Removes unfinished files of a training that was killed. The caller holds the lock."""
        in_progress.remove_all_leftovers(self.path)
        for model in (self.model, self.last_model):
            directories.restore(model)
            directories.remove_leftovers(model, names.MODEL_FILES)
        in_progress.remove_all_leftovers(self.checkpoints)

    def _lock(self) -> None:
        """Locks the run for this process. Raises `RunDirectoryError` if another process has it."""
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
                f"Another training{by} is using {self.path}. Wait for it, or pass another "
                "directory."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        with contextlib.suppress(OSError):  # on a full disk: the text is not needed
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
        """Raises `RunDirectoryError` if config, data or vocabulary differ from the first start.

        `may_change` are the keys of the config that a resumed run may have changed.
        """
        flat_config = flatten(toml.parse(config_text))
        _check_equal("config", self.config_path, before, flat_config, may_change)
        flat_card = flatten(json_text.parse(data_card_text))
        _check_equal("data", self.data_card_path, flatten(self.data_card()), flat_card, ())
        if vocabulary_text is not None and files.read_text(self.vocabulary_path) != vocabulary_text:
            raise RunDirectoryError(
                f"The vocabulary differs from {self.vocabulary_path}. Use the client store of "
                "the first start, or another run directory."
            )

    def own_parts(self) -> dict[str, dict[str, str]]:
        """Returns key -> reference, version and SHA-256 of each part that is not of this package.

        Raises `RunDirectoryError` if the file is damaged.
        """
        return files.read_json(self.own_parts_path) if self.own_parts_path.exists() else {}

    def _check_own_parts(self, own_parts: Mapping[str, Any]) -> None:
        """Raises `RunDirectoryError` if a user's code has changed since the run started."""
        recorded = self.own_parts()
        for key, now in own_parts.items():
            before = recorded.get(key)
            if before is None:
                raise RunDirectoryError(
                    f"{self.own_parts_path} does not name the source of `{key}`, so the run cannot "
                    "be resumed. Restore the file, or use another run directory."
                )
            for fact, word in (("sha256", "source"), ("version", "version")):
                if before.get(fact) != now[fact]:
                    raise RunDirectoryError(
                        f"The {word} of `{key}` = {now['reference']!r} has changed since this run "
                        f"started: {fact} was {_shorten(str(before.get(fact)), 16)}, and is "
                        f"{_shorten(str(now[fact]), 16)} now. Restore it, or use another run "
                        "directory."
                    )

    def _warn_about_environment(self) -> None:
        if not self.environment_path.exists():
            self._write_environment()
        before, now = flatten(self.environment()), flatten(environment.describe())
        for key in before:
            if key.startswith(("packages.", "python")) and before[key] != now.get(key):
                warnings.warn(
                    f"This run started with {key} = {before[key]}, which is {now.get(key)} now. "
                    "The result may differ from a run without interruption.",
                    stacklevel=4,
                )

    def _write_environment(self) -> None:
        text = json.dumps(environment.describe(), indent=2) + "\n"
        self._write_text(self.environment_path, text)

    def _write_text(self, path: pathlib.Path, text: str) -> None:
        files.write_atomically(path, [text.encode()])


def _last_round_of_table(path: pathlib.Path) -> int:
    """Returns the number at the beginning of the last complete line of a CSV file; 0 if none is."""
    try:
        lines = files.content(path).split(b"\n")[:-1]
    except OSError:
        return 0
    first = lines[-1].partition(b",")[0] if lines else b""
    return int(first) if first.isdigit() and len(first) < 10 else 0


def _groups_of_comparison(path: pathlib.Path) -> int:
    """Returns the number of groups of devices in a comparison; 0 if it is not of such groups."""
    try:
        text = files.read_json(path)["text"] if path.is_file() else {}
        return len(text["people"]) if text.get("unit") == GROUPS_OF_DEVICES else 0
    except (RunDirectoryError, AttributeError, KeyError, TypeError):
        return 0


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested mappings as one mapping, with keys joined by dots.

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
    """Raises `RunDirectoryError` at the first key whose value has changed.

    Args:
      what: The kind of file, for the error: "config" or "data".
      path: The file of the first start.
      before: Its values, with dotted keys.
      now: The values of this start.
      may_change: Keys that are not compared.
    """
    for key in sorted({*before, *now}):
        if key in may_change or (key in before and key in now and before[key] == now[key]):
            continue
        old = repr(before[key]) if key in before else "not set"
        new = repr(now[key]) if key in now else "not set"
        raise RunDirectoryError(
            f"The {what} differs from {path}, with which this run started: `{key}` was "
            f"{_shorten(old)}, and is {_shorten(new)} now. Restore it, or use another run "
            "directory."
        )


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
