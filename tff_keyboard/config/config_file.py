"""One TOML file, one `RunConfig`: sections are frozen dataclasses, typos are errors.

    [train]
    rounds = 300

becomes `RunConfig(train=TrainConfig(rounds=300))`; `--set=train.rounds=3` overrides it.
What a run used is written back in full by `dump`, so a run directory never depends on
defaults that may change later.
"""

import dataclasses
import difflib
import pathlib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import tomli_w

from tff_keyboard.config.aggregation_config import AggregationConfig
from tff_keyboard.config.data_config import DataConfig
from tff_keyboard.config.fine_tuning_config import FineTuningConfig
from tff_keyboard.config.learning_config import ClientConfig, ServerConfig
from tff_keyboard.config.model_config import ModelConfig
from tff_keyboard.config.train_config import EvaluationConfig, ExecutionConfig, TrainConfig
from tff_keyboard.storage.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that defines a run.

    Attributes:
      data: Where text comes from and how it becomes a client store.
      model: Which next-word model.
      client: What one client does in a round.
      server: What the server does with the aggregated delta.
      aggregation: How client deltas become one server delta.
      fine_tuning: How a general model is kept from being forgotten; by default, not at all.
      train: Rounds, cohorts, checkpoints, stopping.
      evaluation: Federated evaluation during and after training.
      execution: Workers and threads; never changes results.
    """

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    client: ClientConfig = dataclasses.field(default_factory=ClientConfig)
    server: ServerConfig = dataclasses.field(default_factory=ServerConfig)
    aggregation: AggregationConfig = dataclasses.field(default_factory=AggregationConfig)
    fine_tuning: FineTuningConfig = dataclasses.field(default_factory=FineTuningConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    execution: ExecutionConfig = dataclasses.field(default_factory=ExecutionConfig)

    def __post_init__(self):
        if self.train.clients_per_round < 1:
            return  # TrainConfig has raised already
        if self.train.algorithm == "fedsgd" and self.client.epochs != 1:
            raise ValueError(
                f"`client.epochs` = {self.client.epochs} with `train.algorithm` = 'fedsgd': FedSGD "
                "takes one gradient over the local data. Set `client.epochs` = 1 or use 'fedavg'."
            )
        if self.train.algorithm == "fedsgd" and self.aggregation.client_weighting != "tokens":
            raise ValueError(
                f"`aggregation.client_weighting` = '{self.aggregation.client_weighting}' with "
                "`train.algorithm` = 'fedsgd': the federated gradient is a token mean. "
                "Set it to 'tokens'."
            )
        if self.train.algorithm == "fedsgd" and self.aggregation.name == "fedmed":
            raise ValueError(
                "`aggregation.name` = 'fedmed' needs local training losses, which "
                "`train.algorithm` = 'fedsgd' does not have. Use 'fedavg'."
            )
        if self.train.algorithm == "fedsgd" and self.fine_tuning.method == "lwf":
            raise ValueError(
                "`fine_tuning.method` = 'lwf' changes local training, which `train.algorithm` = "
                "'fedsgd' does not have. Use 'fedavg'."
            )
        if self.fine_tuning.server == "transfer":
            self._check_transfer()

    def _check_transfer(self) -> None:
        allowed: dict[str, tuple[Any, ...]] = {
            "train.algorithm": ("fedavg",),
            "aggregation.name": ("mean",),
            "aggregation.dp": ("none",),
            "aggregation.compression": ("none",),
            "aggregation.client_noise_scale": (0.0,),
            "aggregation.zeroing": ("off", "auto"),
            "aggregation.clipping": ("off", "auto"),
        }
        for name, values in allowed.items():
            section, key = name.split(".")
            found = getattr(getattr(self, section), key)
            if found not in values:
                raise ValueError(
                    f"`{name}` = {found!r} with `fine_tuning.server` = 'transfer': the server "
                    "learns from individual models instead of aggregating. "
                    f"Set it to {values[0]!r}."
                )


def load(path: str | pathlib.Path | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads a TOML file and applies `section.key=value` overrides in order.

    Args:
      path: TOML file; None starts from the defaults.
      overrides: Each `section.key=value`; the value is TOML (`0.5`, `true`, `"text"`, `[1, 2]`),
        and a bare word is taken as a string.

    Raises:
      ConfigError: The file cannot be read or breaks a rule; the message names file and key.
    """
    if path is None:
        return loads("", overrides)
    path = pathlib.Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"No config file at {path}. Give --config=FILE.toml.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read config {path}: {error}.") from None
    return loads(text, overrides, origin=str(path))


def loads(text: str, overrides: Sequence[str] = (), *, origin: str = "config") -> RunConfig:
    """As `load`, from TOML text.

    >>> loads("[train]\\nrounds = 7", ["train.seed=3"]).train.rounds
    7
    >>> loads("[train]\\nround = 7")
    Traceback (most recent call last):
    ...
    tff_keyboard.storage.errors.ConfigError: config: Unknown key `train.round`. \
Did you mean `train.rounds`?
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: not valid TOML: {error}.") from None
    for override in overrides:
        _apply_override(values, override)
    try:
        return from_dict(values)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None


def _apply_override(values: dict[str, Any], override: str) -> None:
    name, equals, raw = override.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot or not section or not key:
        raise ConfigError(f"`--set={override}` must read `--set=section.key=value`.")
    try:
        value = tomllib.loads(f"value = {raw.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()
    table = values.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"`{section}` is not a section, so `--set={override}` cannot apply.")
    table[key] = value


def from_dict(values: Mapping[str, Any]) -> RunConfig:
    """Builds a `RunConfig` from nested tables, rejecting unknown names and wrong types."""
    sections = typing.get_type_hints(RunConfig)
    parts = {}
    for section, table in values.items():
        if section not in sections:
            raise ConfigError(_unknown("section", section, "", sections))
        if not isinstance(table, Mapping):
            raise ConfigError(f"`{section}` must be a section, got {table!r}. Write [{section}].")
        parts[section] = _section(sections[section], section, table)
    try:
        return RunConfig(**parts)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _section(cls: type, section: str, table: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(cls)
    arguments = {}
    for key, value in table.items():
        if key not in hints:
            raise ConfigError(_unknown("key", key, f"{section}.", hints))
        arguments[key] = _coerce(value, hints[key], f"{section}.{key}")
    try:
        return cls(**arguments)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _unknown(kind: str, name: str, prefix: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"Unknown {kind} `{prefix}{name}`. Did you mean `{prefix}{near[0]}`?"
    return f"Unknown {kind} `{prefix}{name}`. Known: {', '.join(f'`{k}`' for k in known)}."


def _coerce(value: Any, hint: Any, name: str) -> Any:
    """Checks one TOML value against a field's type; ints are accepted where floats are asked."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        errors = []
        for option in typing.get_args(hint):
            if option is type(None):
                if value is None:
                    return None
                continue
            try:
                return _coerce(value, option, name)
            except ConfigError as error:
                errors.append(error)
        raise errors[0]
    if origin in (tuple, list):
        items = typing.get_args(hint)
        if not isinstance(value, list | tuple):
            raise _wrong(name, "a list", value)
        return origin(_coerce(item, items[0], f"{name}[{i}]") for i, item in enumerate(value))
    if origin in (dict, Mapping) or origin is getattr(typing, "Mapping", None):
        if not isinstance(value, Mapping):
            raise _wrong(name, "a table", value)
        item_hint = typing.get_args(hint)[1]
        return {key: _coerce(item, item_hint, f"{name}.{key}") for key, item in value.items()}
    if hint is Any:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, bool):
        raise _wrong(name, "a whole number", value)
    if not isinstance(value, hint):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
        raise _wrong(name, words.get(hint, getattr(hint, "__name__", str(hint))), value)
    return value


def _wrong(name: str, wanted: str, value: Any) -> ConfigError:
    return ConfigError(f"`{name}` must be {wanted}, got {value!r}.")


def to_dict(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Nested plain values; fields that are None are left out (TOML has no null)."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        return value

    tables: dict[str, dict[str, Any]] = {}
    for section in dataclasses.fields(config):
        part = getattr(config, section.name)
        tables[section.name] = {
            field.name: plain(getattr(part, field.name))
            for field in dataclasses.fields(part)
            if getattr(part, field.name) is not None
        }
    return tables


def dump(config: RunConfig) -> str:
    """The resolved config as TOML text: `loads(dump(config)) == config`."""
    return tomli_w.dumps(to_dict(config))
