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

import argparse
import dataclasses
import difflib
import functools
import json
import math
import pathlib
import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from tff_keyboard import config as config_lib
from tff_keyboard.storage.errors import UsageError

Population = Literal["held_out", "validation", "train", "train_later"]
Runtime = Annotated[
    Literal["litert", "tensorflow"] | None, "Interpreter; the first installed if left out."
]
Workdir = Annotated[pathlib.Path, "Run directory, new or to be resumed."]
_METAVARS = {int: "N", float: "X", str: "TEXT", pathlib.Path: "PATH"}


@dataclasses.dataclass(frozen=True)
class Range:
    """Least and greatest value of a number, both allowed."""

    low: float = -math.inf
    high: float = math.inf


@dataclasses.dataclass(frozen=True)
class Words:
    """Marks the field of the words that are not flags, and says what they are.

    Attributes:
      help: What they are, to be read after "Give ".
      least, most: How many there may be; for a field that is no tuple it is always one.
    """

    help: str
    least: int = 0
    most: float = math.inf


@dataclasses.dataclass(frozen=True)
class Option:
    """One field of a `TaskOptions`, as its annotation describes it."""

    name: str
    kind: type
    help: str
    choices: tuple[str, ...] | None
    is_tuple: bool
    words: Words | None
    range: Range
    default: Any

    @property
    def flag(self) -> str:
        """As it is typed: `--parity-words`."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING and not self.is_tuple

    @property
    def is_list(self) -> bool:
        """Whether values are separated by commas, which no value of this type can hold."""
        return self.is_tuple and (self.kind not in (str, pathlib.Path) or self.choices is not None)

    def check(self, value: Any) -> None:
        """Raises `UsageError` unless `value` is in the range and one of the choices."""
        if self.words and self.is_tuple:
            if not self.words.least <= len(value) <= self.words.most:
                raise UsageError(f"Give {self.help}; got {len(value)} arguments. See --help.")
            return
        for item in value if self.is_tuple else () if value is None else (value,):
            if self.choices and item not in self.choices:
                raise UsageError(f"{self.flag} must be of {', '.join(self.choices)}; got {item!r}.")
            low, high = self.range.low, self.range.high
            if self.range != Range() and not low <= item <= high:
                rule = f">= {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
                raise UsageError(f"{self.flag} must be {rule}, got {item!r}.")


class TaskOptions:
    """Base of the options of a task, which are frozen dataclasses with keywords only."""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            option.check(getattr(self, option.name))

    @classmethod
    def parse(cls, name: str, arguments: Sequence[str]) -> Self:
        """From the words after the task's name.

        Raises:
          UsageError: They do not fit; one line.
        """
        known = options_of(cls)
        parser = _parser(cls, name, "")
        values = vars(parser.parse_intermixed_args(_spelled(arguments, known)))
        for option in known:
            given = values.get(option.name)
            if option.words and not option.is_tuple:
                found = given or []
                if len(found) != 1:
                    raise UsageError(f"Give {option.help}; got {len(found)} arguments. See --help.")
                values[option.name] = found[0]
            elif option.is_tuple and (option.words or given is not None):
                values[option.name] = tuple(given or ())
            elif option.is_required and given is None:
                raise UsageError(f"Give {option.flag}: {option.help} See --help.")
        return cls(**values)

    @classmethod
    def help(cls, name: str, description: str) -> str:
        """The description, the words and the flags, as text for a terminal."""
        return _parser(cls, name, description).format_help()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigOptions(TaskOptions):
    """Options of a task that takes a config."""

    config: Annotated[pathlib.Path | None, "TOML file of the run; defaults if left out."] = None
    store: Annotated[
        pathlib.Path | None, "Client store; `data.store` of the config if left out."
    ] = None
    set: Annotated[tuple[str, ...], "Override `section.key=value`; may be repeated."] = ()

    def run_config(self, path: pathlib.Path | None = None) -> config_lib.RunConfig:
        """The config of `path`, or of --config, with --set and --store applied."""
        overrides = list(self.set)
        if self.store is not None:
            overrides.append(f"data.store={json.dumps(str(self.store))}")
        return config_lib.load(path or self.config, overrides)


def options_of(cls: type[TaskOptions]) -> tuple[Option, ...]:
    """What the annotations of `cls` describe, in order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # each task's class is one
    return tuple(_option(field.name, hints[field.name], field.default) for field in fields)


def _option(name: str, hint: Any, default: Any) -> Option:
    described, *extras = typing.get_args(hint)
    words = next((extra for extra in extras if isinstance(extra, Words)), None)
    help_line = words.help if words else next(extra for extra in extras if isinstance(extra, str))
    if typing.get_origin(described) in (typing.Union, types.UnionType):
        described = next(t for t in typing.get_args(described) if t is not types.NoneType)
    is_tuple = typing.get_origin(described) is tuple
    if is_tuple:
        described = typing.get_args(described)[0]
    choices = typing.get_args(described) if typing.get_origin(described) is Literal else None
    return Option(
        name=name,
        kind=str if choices else described,
        help=help_line,
        choices=choices,
        is_tuple=is_tuple,
        words=words,
        range=next((extra for extra in extras if isinstance(extra, Range)), Range()),
        default=default,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(f"{message}. Flags of this task: {self.prog} --help.")


def _parser(cls: type[TaskOptions], name: str, description: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"tff-keyboard {name}",
        description=description.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=argparse.SUPPRESS,
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    words, flags = parser.add_argument_group("Words"), parser.add_argument_group("Flags")
    for option in options_of(cls):
        if option.words:
            metavar = option.name.upper()
            words.add_argument(
                option.name, nargs="*", type=option.kind, help=option.help, metavar=metavar
            )
            continue
        settings: dict[str, Any] = {"help": _with_default(option)}
        if option.kind is bool:
            settings["action"] = argparse.BooleanOptionalAction
        elif option.is_list:
            settings |= {"type": functools.partial(_items, option), "metavar": "A,B,.."}
        else:
            settings |= {"type": option.kind, "choices": option.choices}
            settings["metavar"] = None if option.choices else _METAVARS[option.kind]
            settings["action"] = "append" if option.is_tuple else "store"
        flags.add_argument(option.flag, **settings)
    return parser


def _with_default(option: Option) -> str:
    if option.default in (None, (), "", False, dataclasses.MISSING) or option.is_tuple:
        return option.help.replace("%", "%%")
    return f"{option.help} (default: {option.default})".replace("%", "%%")


def _items(option: Option, text: str) -> list[Any]:
    try:
        return [option.kind(item) for item in text.split(",") if item]
    except ValueError:
        kind = {int: "whole numbers", float: "numbers"}[option.kind]
        raise argparse.ArgumentTypeError(
            f"takes {kind} separated by commas; got {text!r}"
        ) from None


def _spelled(arguments: Sequence[str], known: Sequence[Option]) -> list[str]:
    """Flags with hyphens; one that is unknown is an error that names the nearest."""
    flags = {option.flag for option in known if not option.words}
    flags |= {f"--no-{option.flag[2:]}" for option in known if option.kind is bool}
    spelled: list[str] = []
    for word in arguments:
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            flag = flag.replace("_", "-")
            if flag not in flags and f"--no-{flag[4:]}" in flags:
                flag = f"--no-{flag[4:]}"
            if flag not in flags:
                near = difflib.get_close_matches(flag, sorted(flags), n=1)
                hint = f"Did you mean {near[0]}?" if near else "See --help."
                raise UsageError(f"Unknown flag {flag}. {hint}")
        spelled.append(f"{flag}{equals}{value}")
    return spelled
