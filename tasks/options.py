"""Flags from a class: a task names each of its options once, as a field.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options(options.TaskOptions):
        run_dir: Annotated[pathlib.Path, Words("a run directory")]
        clients: Annotated[Literal["held_out", "train"], "Population."] = "held_out"
        parity_words: Annotated[int, "Words that are read.", Range(1)] = 20_000
        set: Annotated[tuple[str, ...], "Override `section.key=value`; may be repeated."] = ()

The text of `Annotated` is the help. What the type says:

  bool                  --flag and --no-flag
  Literal               one of these words
  tuple[str | Path]     a flag that may be repeated
  another tuple         values separated by commas
  `| None`              the flag may be left out
  no default            the flag must be given
  `Words`               the words that are not flags: one, or several for a tuple

Flags are spelled with hyphens; underscores mean the same, and --noflag is --no-flag. A mistake is a
`UsageError` of one line, also where Python code makes the options.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Annotated, Literal

from typing_extensions import Self

from tff_keyboard import config as config_lib
from tff_keyboard.host import flag_parser
from tff_keyboard.host.option_fields import Range, Words, options_of
from tff_keyboard.storage.errors import UsageError

__all__ = ["ConfigOptions", "Range", "TaskOptions", "UsageError", "Words", "options_of"]

Population = Literal["held_out", "validation", "train", "train_later"]
Runtime = Annotated[
    Literal["litert", "tensorflow"] | None, "Interpreter; by default the first that is installed."
]
Workdir = Annotated[pathlib.Path, "Run directory; an existing one is resumed."]
Cluster = Annotated[
    str,
    "Evaluate on the nodes of this Ray cluster: HOST:PORT of its head, or local (docs/cluster.md).",
]


class TaskOptions:
    """Base of the options of a task, which are frozen dataclasses with keywords only."""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            option.check(getattr(self, option.name))

    @classmethod
    def parse(cls, name: str, arguments: Sequence[str]) -> Self:
        """The options from the words after the task's name.

        Raises:
          UsageError: They do not fit; one line.
        """
        return cls(**flag_parser.parse(options_of(cls), name, arguments))

    @classmethod
    def help(cls, name: str, description: str) -> str:
        """The description, the words and the flags, as text for a terminal."""
        return flag_parser.help_text(options_of(cls), name, description)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigOptions(TaskOptions):
    """Options of a task that takes a config."""

    config: Annotated[pathlib.Path | None, "TOML file; `train` needs none (see `advise`)."] = None
    store: Annotated[
        pathlib.Path | None, "Client store; `data.store` of the config if left out."
    ] = None
    set: Annotated[tuple[str, ...], "Override `section.key=value`; may be repeated."] = ()

    def run_config(self, of_run: pathlib.Path | None = None) -> config_lib.RunConfig:
        """The config of --config, or the one that a run keeps, with --set and --store applied."""
        overrides = list(self.set)
        if self.store is not None:
            overrides.append(config_lib.override("data.store", str(self.store)))
        if of_run is not None:
            return config_lib.load_of_run(of_run, overrides)
        return config_lib.load(self.config, overrides)
