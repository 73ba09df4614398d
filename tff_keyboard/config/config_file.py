"""One TOML file, one `RunConfig`: tables are frozen dataclasses, typos are errors.

    base = "../nus_sms.toml"

    [train]
    rounds = 300

is the config of that file (relative to this one) with 300 rounds; `--set=train.rounds=3` overrides
it. A table that chooses another variant (`[aggregation.rule] name = "fedmed"`) replaces that of the
base as a whole. What a run used is written back in full by `dump`, so a run directory depends
neither on files of other places nor on defaults that may change later.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w

from tff_keyboard.config.reading import tables
from tff_keyboard.config.reading.tables import Toml
from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.storage.toml import tomllib

BASE = "base"

_OTHER_VERSION = "If nobody edited it, another version wrote it: use that one."


def load(path: str | pathlib.Path | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads a TOML file on top of its bases and applies `section.key=value` overrides.

    Args:
      path: TOML file, also a shipped one from anywhere (`configs/nus_sms.toml`); None starts
        from the defaults.
      overrides: Each `section.key=value` (`aggregation.rule.name=fedatt`); the value is TOML
        (`0.5`, `true`, `"text"`, `[1, 2]`, a table), and a bare word is taken as a string. Of two
        for the same key the later counts; otherwise their order does not matter.

    Raises:
      ConfigError: A file cannot be read or breaks a rule; the message names file and key.
    """
    values = {} if path is None else _with_bases(shipped_files.found(pathlib.Path(path)), ())
    return _run_config(values, overrides, "config" if path is None else str(path))


def loads(text: str, overrides: Sequence[str] = (), *, origin: str = "config") -> RunConfig:
    """Like `load`, but from TOML text without a base.

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
        raise ConfigError(f"{origin}: `{BASE}` is relative to a file, and this is none.")
    return _run_config(values, overrides, origin)


def load_of_run(path: str | pathlib.Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Like `load`, but of the `config.toml` in a run directory, of this version or of an earlier
    one."""
    text, origin = _read(pathlib.Path(path), ()), str(path)
    of_this_version(text, origin)
    return loads(text, overrides, origin=origin)


def of_this_version(text: str, origin: str) -> str:
    """The config that a run wrote, with the default of each key that it does not have.

    Raises `ConfigError` if it is no config of this version.
    """
    values = _parse(text, origin)
    try:
        return dump(from_dict(values))
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error} {_OTHER_VERSION}") from None


def from_dict(values: Mapping[str, Any]) -> RunConfig:
    """Builds a `RunConfig` from nested tables, rejecting unknown names and wrong types."""
    return tables.build(RunConfig, values)


def to_dict(config: RunConfig) -> Toml:
    """Nested plain values; fields that are None are left out (TOML has no null)."""
    return tables.plain(config)


def dump(config: RunConfig) -> str:
    """The resolved config as TOML text: `loads(dump(config)) == config`."""
    return tomli_w.dumps(to_dict(config))


def _with_bases(path: pathlib.Path, above: tuple[pathlib.Path, ...]) -> Toml:
    """Values of a file merged over those of its bases."""
    if path.resolve() in [one.resolve() for one in above]:
        chain = " -> ".join(str(one) for one in (*above, path))
        raise ConfigError(f"{above[-1]}: `{BASE}` goes in a circle: {chain}. Remove one of them.")
    values = _parse(_read(path, above), str(path))
    base = values.pop(BASE, None)
    if base is None:
        return values
    if not isinstance(base, str) or not base:
        raise ConfigError(f"{path}: `{BASE}` must name a file, got {base!r}.")
    return tables.merge(RunConfig, _with_bases(path.parent / base, (*above, path)), values)


def _read(path: pathlib.Path, above: Sequence[pathlib.Path]) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if above:
            raise ConfigError(
                f"{above[-1]}: there is no file at `{BASE}`, {path}. The path is relative to the "
                "file that names it."
            ) from None
        raise ConfigError(f"No config file at {path}. Give --config=FILE.toml.") from None
    except OSError as error:
        raise ConfigError(f"Cannot read config {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"Cannot read config {path}: not UTF-8. Save it as UTF-8.") from None


def _parse(text: str, origin: str) -> Toml:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: not valid TOML: {error}.") from None


def _run_config(values: Toml, overrides: Sequence[str], origin: str) -> RunConfig:
    try:
        return from_dict(tables.merge(RunConfig, values, _table_of(overrides)))
    except ConfigError as error:
        raise ConfigError(f"{_culprit(values, overrides, origin)}: {error}") from None


def _culprit(values: Mapping[str, Any], overrides: Sequence[str], origin: str) -> str:
    """The override without which there would be no error, or the file."""
    for place, override in enumerate(overrides):
        if _builds(values, [*overrides[:place], *overrides[place + 1 :]]):
            return f"--set={override}"
    return origin


def _builds(values: Mapping[str, Any], overrides: Sequence[str]) -> bool:
    try:
        from_dict(tables.merge(RunConfig, values, _table_of(overrides)))
    except ConfigError:
        return False
    return True


def _table_of(overrides: Sequence[str]) -> Toml:
    above: Toml = {}
    for override in overrides:
        _add_override(above, override)
    return above


def override(key: str, value: object) -> str:
    """`key=value` as `load` takes it: text as TOML has it, which knows no halves of characters.

    >>> override("data.store", "data/sms")
    'data.store="data/sms"'
    """
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _add_override(above: Toml, override: str) -> None:
    name, equals, raw = override.partition("=")
    keys = name.strip().split(".")
    try:
        value = tomllib.loads(f"value = {raw.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()
    is_key = len(keys) > 1 or isinstance(value, dict)
    if not equals or not is_key or not all(keys):
        sections = to_dict(RunConfig()).items()
        near = [f"{section}.{name.strip()}" for section, table in sections if name.strip() in table]
        meant = f" Did you mean {' or '.join(near)}?" if equals and near else ""
        raise ConfigError(f"`--set={override}` must read `--set=section.key=value`.{meant}")
    table = above
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"`{key}` is not a section, so `--set={override}` cannot apply.")
    table[keys[-1]] = value
