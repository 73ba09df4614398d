"""Reads a TOML file into a `RunConfig` of frozen dataclasses. Unknown keys are errors.

    base = "../nus_sms.toml"

    [train]
    rounds = 300

This is the config in `../nus_sms.toml` (relative to this file) with 300 rounds.
`--set=train.rounds=3` overrides it. A table that chooses another variant (`[aggregation.rule] type
= "fedmed"`) replaces the whole table of the base. `dump` writes the complete resolved config, so a
run directory depends neither on other files nor on defaults that may change later.
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import tomli_w

from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.config.sections.execution_config import AUTO
from tff_keyboard.parts import own_part, tables
from tff_keyboard.parts.renamed_keys import RENAMED_KEYS
from tff_keyboard.parts.schedule import Cosine
from tff_keyboard.parts.tables import Toml
from tff_keyboard.storage import files, part_reference, shipped_files, toml
from tff_keyboard.storage.errors import ConfigError

BASE = "base"
_REFERENCES = ("type", "source")  # keys that can name a user's own part
_WITH_SCHEDULE = ("server", "client", "central")  # tables

_OTHER_VERSION = "If you did not edit it, another version wrote it. Use that version."


def load(path: str | pathlib.Path | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads a TOML file and its bases, and applies `section.key=value` overrides.

    Args:
      path: TOML file. Shipped files are found from any directory (`configs/nus_sms.toml`). None
        starts from the defaults.
      overrides: Each `section.key=value` (`aggregation.rule.type=fedatt`). The value is TOML
        (`0.5`, `true`, `"text"`, `[1, 2]`, a table), or an unquoted word, which is read as a
        string. If a key occurs twice, the last value counts; otherwise the order does not matter.

    Raises:
      ConfigError: If a file cannot be read or breaks a rule. The message names the file and the
        key.
    """
    values = {} if path is None else _with_bases(shipped_files.locate(pathlib.Path(path)), ())
    return _run_config(values, overrides, "config" if path is None else str(path))


def loads(text: str, overrides: Sequence[str] = (), *, origin: str = "config") -> RunConfig:
    """Reads a config from TOML text without a base; see `load`.

    >>> loads("[train]\\nrounds = 7", ["train.seed=3"]).train.rounds
    7
    >>> loads("[train]\\nround = 7")
    Traceback (most recent call last):
    ...
    tff_keyboard.storage.errors.ConfigError: config: Unknown key `train.round`. \
Did you mean `train.rounds`?
    """
    values = _parse(text, origin)
    if BASE in values:
        raise ConfigError(
            f"{origin}: `{BASE}` is relative to a file, but this config is not a file."
        )
    return _run_config(values, overrides, origin)


def load_of_run(path: str | pathlib.Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads the `config.toml` of a run directory, written by this version or an earlier one."""
    text = of_this_version(_read(pathlib.Path(path), (), is_of_run=True), str(path))
    with own_part.recorded_config():
        return loads(text, overrides, origin=str(path))


def of_this_version(text: str, origin: str) -> str:
    """Returns a run's config text with the names of this version for keys that were renamed.

    Adds the default of each key that it does not contain.

    Raises `ConfigError` if it is not a config of this version. `origin` is the path of the config.
    """
    values = _parse(text, origin)
    for old, new in RENAMED_KEYS.items():
        *names, old_key = old.split(".")
        table = functools.reduce(_subtable, names, values)
        if old_key in table:
            table.setdefault(new.rpartition(".")[2], table.pop(old_key))
    values.setdefault("execution", {}).setdefault("first_step", "separate")
    try:
        with own_part.recorded_config():
            return dump(from_dict(values))
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error} {_OTHER_VERSION}") from None


def _subtable(table: Toml, name: str) -> Toml:
    """Returns the table at a key; empty if there is none."""
    subtable = table.get(name)
    return subtable if isinstance(subtable, dict) else {}


def from_dict(values: Mapping[str, Any]) -> RunConfig:
    """Builds a `RunConfig` from nested tables. Rejects unknown names and wrong types."""
    return tables.build(RunConfig, values)


def to_dict(config: RunConfig) -> Toml:
    """Returns the config as nested plain values. Omits None, because TOML has no null."""
    return tables.plain(config)


def dump(config: RunConfig) -> str:
    """Returns the resolved config as TOML text: `loads(dump(config)) == config`."""
    return tomli_w.dumps(to_dict(config))


def rounds_of_cosines(config: RunConfig) -> list[str]:
    """Returns overrides that set the number of rounds of each cosine schedule in a config."""
    schedules = {name: getattr(getattr(config, name), "schedule", None) for name in _WITH_SCHEDULE}
    return [
        f"{name}.schedule.rounds={schedule.rounds}"
        for name, schedule in schedules.items()
        if isinstance(schedule, Cosine)
    ]


def as_run(config: RunConfig, recorded: str | None = None) -> RunConfig:
    """Returns `config` with the values that a run decides at its start, and keeps when resumed.

    These are the number of rounds of every cosine schedule, so that a larger `train.rounds` does
    not change the learning rate of finished rounds, and `execution.first_step`. Rounds after the
    end of a cosine have its lowest rate. A value that the config states is not changed; a later
    check rejects it if it differs from the recorded one.

    Args:
      config: The config.
      recorded: The config that the run recorded (TOML), or None for a new run.
    """
    begun = toml.parse(recorded) if recorded else {}
    tables_of_run: dict[str, Any] = {}
    for name in _WITH_SCHEDULE:
        table = getattr(config, name)
        schedule = getattr(table, "schedule", None)
        if not isinstance(schedule, Cosine) or schedule.rounds:
            continue
        # A run with fewer rounds than its warm-up ends during the warm-up.
        rounds = max(config.train.rounds, schedule.warmup_rounds + 1)
        recorded_rounds = begun.get(name, {}).get("schedule", {}).get("rounds", rounds)
        if recorded_rounds > schedule.warmup_rounds:  # otherwise rejected later
            rounds = recorded_rounds
        cosine = dataclasses.replace(schedule, rounds=rounds)
        tables_of_run[name] = dataclasses.replace(table, schedule=cosine)
    if config.execution.first_step == AUTO:
        first_step: Literal["shared", "separate"] = "shared"
        # Runs of versions before the key computed each client's first step separately.
        if recorded and begun.get("execution", {}).get("first_step", "separate") == "separate":
            first_step = "separate"
        execution = dataclasses.replace(config.execution, first_step=first_step)
        tables_of_run["execution"] = execution
    return dataclasses.replace(config, **tables_of_run)


def _with_bases(path: pathlib.Path, above: tuple[pathlib.Path, ...]) -> Toml:
    """Returns the values of a file, merged over the values of its bases."""
    if path.resolve() in [one.resolve() for one in above]:
        chain = " -> ".join(str(one) for one in (*above, path))
        raise ConfigError(f"{above[-1]}: `{BASE}` forms a circle: {chain}. Remove one of them.")
    values = _with_absolute_references(_parse(_read(path, above), str(path)), path.parent)
    base = values.pop(BASE, None)
    if base is None:
        return values
    if not isinstance(base, str) or not base:
        raise ConfigError(f"{path}: `{BASE}` must name a file, got {base!r}.")
    return tables.merge(RunConfig, _with_bases(path.parent / base, (*above, path)), values)


def _read(path: pathlib.Path, above: Sequence[pathlib.Path], *, is_of_run: bool = False) -> str:
    """Returns the text of a config. `above` are the files that named it as their base, if any."""
    try:
        if is_of_run:
            return files.content(path, max_bytes=files.MAX_TABLE_BYTES).decode("utf-8")
        return path.read_text(encoding="utf-8")  # which may be a pipe: --config=<(...)
    except FileNotFoundError:
        if above:
            raise ConfigError(
                f"{above[-1]}: there is no file at `{BASE}`, {path}. The path is relative to the "
                "file in which it stands."
            ) from None
        raise ConfigError(f"No config file at {path}. Pass --config=FILE.toml.") from None
    except OSError as error:
        raise ConfigError(f"Cannot read config {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"Cannot read config {path}: not UTF-8. Save it as UTF-8.") from None


def _parse(text: str, origin: str) -> Toml:
    try:
        return toml.parse(text)
    except toml.InvalidTomlError as error:
        raise ConfigError(f"{origin}: not valid TOML: {error}.") from None


def _run_config(values: Toml, overrides: Sequence[str], origin: str) -> RunConfig:
    try:
        return from_dict(_with_overrides(values, overrides))
    except ConfigError as error:
        raise ConfigError(f"{_culprit(values, overrides, origin)}: {error}") from None


def _culprit(values: Mapping[str, Any], overrides: Sequence[str], origin: str) -> str:
    """Returns the override that causes the error, or the file if no single override does."""
    for position, override in enumerate(overrides):
        if _builds(values, [*overrides[:position], *overrides[position + 1 :]]):
            return f"--set={override}"
    return origin


def _builds(values: Mapping[str, Any], overrides: Sequence[str]) -> bool:
    """Checks if the values with these overrides are a valid config."""
    try:
        from_dict(_with_overrides(values, overrides))
    except ConfigError:
        return False
    return True


def _with_overrides(values: Mapping[str, Any], overrides: Sequence[str]) -> Toml:
    merged = tables.merge(RunConfig, values, _table_of(overrides))
    return _with_absolute_references(merged, pathlib.Path())


def _with_absolute_references(values: Any, folder: pathlib.Path) -> Any:
    """Returns tables in which the files of the user's own parts have absolute paths."""
    if isinstance(values, dict):
        return {
            key: part_reference.absolute(value, folder)
            if key in _REFERENCES and isinstance(value, str)
            else _with_absolute_references(value, folder)
            for key, value in values.items()
        }
    return values


def _table_of(overrides: Sequence[str]) -> Toml:
    """Returns the overrides as nested tables; a later one replaces an earlier one."""
    merged: Toml = {}
    for override in overrides:
        _add_override(merged, override)
    return merged


def override(key: str, value: object) -> str:
    """Returns `key=value` as `load` reads it, with the value as a TOML string.

    >>> override("data.store", "data/sms")
    'data.store="data/sms"'
    """
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _add_override(merged: Toml, override: str) -> None:
    """Sets the value of "section.key=value" in the nested tables `merged`.

    A value that is not TOML is a string, so that the shell needs no second pair of quotes.
    """
    name, equals, raw = override.partition("=")
    keys = name.strip().split(".")
    try:
        value = toml.parse(f"value = {raw.strip()}")["value"]
    except toml.InvalidTomlError:
        value = raw.strip()
    is_key = len(keys) > 1 or isinstance(value, dict)
    if not equals or not is_key or not all(keys):
        sections = to_dict(RunConfig()).items()
        near = [f"{section}.{name.strip()}" for section, table in sections if name.strip() in table]
        meant = f" Did you mean {' or '.join(near)}?" if equals and near else ""
        raise ConfigError(
            f"`--set={override}` must have the form `--set=section.key=value`.{meant}"
        )
    table = merged
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"`{key}` is not a section, so `--set={override}` cannot apply.")
    table[keys[-1]] = value
