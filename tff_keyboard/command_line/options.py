"""Reads command-line flags into a dataclass with `absl.flags`; each field is one flag.

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options(options.TaskOptions):
        run_dir: Annotated[pathlib.Path, Positional("a run directory")]
        clients: Annotated[Literal["held_out", "train"], "Population."] = "held_out"
        max_words: Annotated[int, "Number of words to read.", flags.IntegerParser(1)] = 20_000
        set: Annotated[tuple[str, ...], "Override `section.key=value`. Repeatable."] = ()

The text in `Annotated` is the help. The type decides how the flag is written:

  bool                  --flag, and --noflag or --no-flag
  Literal               one of these values
  tuple[str | Path]     a flag that may be repeated
  any other tuple       values separated by commas
  `| None`              an optional flag
  no default            a required flag
  `Positional`          positional arguments: one, or several for a tuple

An absl parser after the help sets bounds. Users may write underscores instead of hyphens.
"""

import dataclasses
import math
import pathlib
import textwrap
import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from absl import flags
from typing_extensions import Self

from tff_keyboard import config as config_lib
from tff_keyboard.storage.errors import UsageError

__all__ = ["ConfigOptions", "Positional", "TaskOptions", "UsageError"]

Population = Literal["held_out", "validation", "train", "train_later"]
Workdir = Annotated[pathlib.Path, "Run directory. An existing one is resumed."]
Cluster = Annotated[
    str,
    "Evaluate on the nodes of this Ray cluster: HOST:PORT of its head, or `local`. See "
    "docs/cluster.md.",
]
Tail = Annotated[
    int,
    "Number of words outside the vocabulary, from train clients and --word-list.",
    flags.IntegerParser(0),
]
TailWordList = Annotated[
    pathlib.Path | None, "Public word list for --tail, with lines of word<TAB>frequency."
]


def check_tail(tail: int, word_list: pathlib.Path | None) -> None:
    """Checks the flags --tail and --word-list.

    Raises:
      UsageError: If there is a word list, but no word is taken from it.
    """
    if word_list and not tail:
        raise UsageError("--word-list requires --tail, the number of words to take from it.")


@dataclasses.dataclass(frozen=True)
class Positional:
    """Marks the field of the positional arguments, and describes them.

    Attributes:
      help: A noun phrase, to be read after "Pass ".
      min_count, max_count: Number of arguments, if the field is a tuple. Other fields take one.
    """

    help: str
    min_count: int = 0
    max_count: float = math.inf


class TaskOptions:
    """Base class of a task's options. Subclasses are frozen, keyword-only dataclasses.

    Attributes:
      resumes: Whether a task that was interrupted goes on when the same command runs again.
    """

    resumes: ClassVar[bool] = False

    @classmethod
    def parse(cls, name: str, arguments: Sequence[str]) -> Self:
        """Parses the arguments after the task's name.

        Raises:
          UsageError: If an argument is unknown or invalid.
        """
        see_help = f"See tff-keyboard {name} --help."
        fields = _fields_of(cls)
        flag_values = flags.FlagValues()
        flag_values.set_gnu_getopt(True)  # positional arguments may stand before flags
        for field in fields:
            if field.flag is not None:
                flag_values[field.flag.name] = field.flag
        try:
            _, *words = flag_values(
                [name, *(_spelled(argument, flag_values) for argument in arguments)]
            )
        except (flags.Error, ValueError) as error:
            message = str(error).replace(" ?", "?")
            end = "" if message.endswith((".", "?")) else "."
            raise UsageError(f"{message}{end} {see_help}") from None
        if words and all(field.flag is not None for field in fields):
            raise UsageError(f"Unexpected argument '{words[0]}'. {see_help}")
        values: dict[str, Any] = {}
        for field in fields:
            if field.flag is None:
                if not field.min_count <= len(words) <= field.max_count:
                    raise UsageError(f"Pass {field.help}; got {len(words)} arguments. {see_help}")
                items = tuple(map(field.kind, words))
                values[field.name] = items if field.is_tuple else items[0]
            elif field.flag.present:
                value = field.flag.value
                if isinstance(value, float) and not math.isfinite(value):
                    raise UsageError(f"--{field.flag.name} must be finite, got {value}.")
                values[field.name] = tuple(value) if field.is_tuple else value
            elif field.default is dataclasses.MISSING:
                raise UsageError(f"--{field.flag.name} is required: {field.help} {see_help}")
        return cls(**values)

    @classmethod
    def help(cls, name: str, description: str) -> str:
        """Returns the description, the arguments and the flags as text for a terminal."""
        lines = [description.strip()]
        fields = _fields_of(cls)
        for title, is_flag in (("Arguments", False), ("Flags", True)):
            group = [field for field in fields if (field.flag is not None) == is_flag]
            lines += ["", f"{title}:"] if group else []
            lines += [line for field in group for line in field.help_lines()]
        return "\n".join(lines)


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


class _PathParser(flags.ArgumentParser):
    """Reads a flag as a path."""

    def parse(self, argument: str) -> pathlib.Path:
        return pathlib.Path(argument)


class _CommaSeparatedParser(flags.ArgumentParser):
    """Reads a flag as a list of items, such as "1,2,3"."""

    def __init__(self, item_parser: flags.ArgumentParser):
        self._item_parser = item_parser

    def parse(self, argument: str) -> list[Any]:
        return [self._item_parser.parse(item) for item in argument.split(",") if item]


# Type of a value -> its parser without bounds, and its name in the help.
_KINDS = {
    int: (flags.IntegerParser(), "N"),
    float: (flags.FloatParser(), "X"),
    str: (flags.ArgumentParser(), "TEXT"),
    pathlib.Path: (_PathParser(), "PATH"),
}


@dataclasses.dataclass(frozen=True)
class _Field:
    """A field of an options class, as its annotation describes it."""

    name: str
    default: Any
    help: str
    kind: type  # of one value
    is_tuple: bool
    spelled: str  # in the help
    flag: flags.Flag | None = None  # None for positional arguments
    min_count: int = 1
    max_count: float = 1

    def help_lines(self) -> list[str]:
        """Returns the name and the help of the field, in two columns."""
        text = self.help
        if self.default is True:
            text += " (default: on)"
        elif isinstance(self.default, int | float | str | pathlib.Path) and self.default:
            text += f" (default: {self.default})"
        rows = textwrap.wrap(text, flags.get_help_width() - 24, break_on_hyphens=False)
        if len(self.spelled) <= 20:
            rows[0] = f"  {self.spelled:22}{rows[0]}"
        else:
            rows.insert(0, f"  {self.spelled}")
        return [rows[0], *(f"{'':24}{row}" for row in rows[1:])]


def _fields_of(cls: type) -> list[_Field]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [_field_of(f.name, f.default, hints[f.name]) for f in dataclasses.fields(cls)]


def _field_of(name: str, default: Any, hint: Any) -> _Field:
    """Returns how a field of a command's options is read, from its annotation.

    The annotation `hint` is `Annotated[type, help or Positional, parser]`. The parser may be
    missing.
    """
    kind, text, *parsers = typing.get_args(hint)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = typing.get_args(kind)[0]  # without None
    is_tuple = typing.get_origin(kind) is tuple
    if is_tuple:
        kind = typing.get_args(kind)[0]
    if isinstance(text, Positional):
        counts = (text.min_count, text.max_count) if is_tuple else (1, 1)
        return _Field(name, default, text.help, kind, is_tuple, name.upper(), None, *counts)
    flag_name = name.replace("_", "-")
    if kind is bool:
        flag = flags.BooleanFlag(flag_name, None, text)
        spelled = f"--{flag_name}, --no-{flag_name}" if default else f"--{flag_name}"
        return _Field(name, default, text, kind, False, spelled, flag)
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        parser, value = flags.EnumParser(choices), "{" + ",".join(choices) + "}"
    else:
        parser, value = _KINDS[kind]
    parser = parsers[0] if parsers else parser
    is_repeatable = is_tuple and kind in (str, pathlib.Path)
    if is_tuple and not is_repeatable:
        parser, value = _CommaSeparatedParser(parser), "A,B,.."
    flag_class = flags.MultiFlag if is_repeatable else flags.Flag
    flag = flag_class(parser, None, flag_name, None, text)  # None: not given
    return _Field(name, default, text, kind, is_tuple, f"--{flag_name} {value}", flag)


def _spelled(argument: str, values: flags.FlagValues) -> str:
    """Spells a flag as absl does: --no-parity_gate becomes --noparity-gate."""
    name, equals, value = argument.partition("=")
    if not name.startswith("--"):
        return argument
    name = name[2:].replace("_", "-")
    if name.startswith("no-") and name not in values:
        name = f"no{name[3:]}"
    return f"--{name}{equals}{value}"
