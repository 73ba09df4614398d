"""Builds command-line flags from a dataclass; each field is one option.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options(options.TaskOptions):
        run_dir: Annotated[pathlib.Path, Words("a run directory")]
        clients: Annotated[Literal["held_out", "train"], "Population."] = "held_out"
        parity_words: Annotated[int, "Number of words to read.", Bounds(1)] = 20_000
        set: Annotated[tuple[str, ...], "Override `section.key=value`. Repeatable."] = ()

The text in `Annotated` is the help. The type decides how the option is written:

  bool                  --flag and --no-flag
  Literal               one of these values
  tuple[str | Path]     a flag that may be repeated
  any other tuple       values separated by commas
  `| None`              an optional flag
  no default            a required flag
  `Words`               positional arguments: one, or several for a tuple

Flags are spelled with hyphens; underscores are accepted too, and --noflag means --no-flag. An
invalid option raises a one-line `UsageError`, also if Python code creates the options.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Annotated, Literal

from typing_extensions import Self

from tff_keyboard import config as config_lib
from tff_keyboard.host import flag_parser
from tff_keyboard.host.option_fields import Bounds, Words, options_of
from tff_keyboard.storage.errors import UsageError

__all__ = ["Bounds", "ConfigOptions", "TaskOptions", "UsageError", "Words", "options_of"]

Population = Literal["held_out", "validation", "train", "train_later"]
Runtime = Annotated[
    Literal["litert", "tensorflow"] | None, "Interpreter. Default: the first one that is installed."
]
Workdir = Annotated[pathlib.Path, "Run directory. An existing one is resumed."]
Cluster = Annotated[
    str,
    "Evaluate on the nodes of this Ray cluster: HOST:PORT of its head, or `local`. See "
    "docs/cluster.md.",
]


class TaskOptions:
    """Base class of a task's options. Subclasses are frozen, keyword-only dataclasses."""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            option.check(getattr(self, option.name))

    @classmethod
    def parse(cls, name: str, arguments: Sequence[str]) -> Self:
        """Parses the arguments after the task's name.

        Raises:
          UsageError: If an argument is unknown or invalid.
        """
        return cls(**flag_parser.parse(options_of(cls), name, arguments))

    @classmethod
    def help(cls, name: str, description: str) -> str:
        """Returns the description, the arguments and the flags as text for a terminal."""
        return flag_parser.help_text(options_of(cls), name, description)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigOptions(TaskOptions):
    """Options of tasks that read a config file."""

    config: Annotated[pathlib.Path | None, "TOML config file."] = None
    store: Annotated[pathlib.Path | None, "Client store. Default: `data.store` of the config."] = (
        None
    )
    set: Annotated[tuple[str, ...], "Override a config key: `section.key=value`. Repeatable."] = ()

    def run_config(self, of_run: pathlib.Path | None = None) -> config_lib.RunConfig:
        """Loads --config, or the config saved with a run, and applies --set and --store."""
        overrides = list(self.set)
        if self.store is not None:
            overrides.append(config_lib.override("data.store", str(self.store)))
        if of_run is not None:
            return config_lib.load_of_run(of_run, overrides)
        return config_lib.load(self.config, overrides)
