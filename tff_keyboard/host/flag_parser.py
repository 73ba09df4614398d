"""Parses command-line arguments to the values of options, with argparse."""

import argparse
import difflib
import functools
import pathlib
import textwrap
import typing
from collections.abc import Sequence
from typing import Any

from tff_keyboard.host.option_fields import Option
from tff_keyboard.storage.errors import UsageError

_METAVARS = {int: "N", float: "X", str: "TEXT", pathlib.Path: "PATH"}


def parse(known: Sequence[Option], name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Returns the values of the given options, by name. Options that were not given are absent."""
    values = vars(_parser(known, name, "").parse_intermixed_args(_spelled(arguments, known)))
    for option in known:
        given = values.get(option.name)
        if option.words and not option.is_tuple:
            found = given or []
            if len(found) != 1:
                raise UsageError(f"Pass {option.help}; got {len(found)} arguments. See --help.")
            values[option.name] = found[0]
        elif option.is_tuple and (option.words or given is not None):
            values[option.name] = tuple(given or ())
        elif option.is_required and given is None:
            raise UsageError(f"{option.flag} is required: {option.help} See --help.")
    return values


def help_text(known: Sequence[Option], name: str, description: str) -> str:
    """Returns the description, the arguments and the flags as text for a terminal."""
    return _parser(known, name, description).format_help()


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps help texts at spaces only, so that no flag is split at a hyphen."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(f"{message}. See {self.prog} --help.")


def _parser(known: Sequence[Option], name: str, description: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"tff-keyboard {name}",
        description=description.strip(),
        formatter_class=_HelpFormatter,
        usage=argparse.SUPPRESS,
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    words, flags = parser.add_argument_group("Arguments"), parser.add_argument_group("Flags")
    for option in known:
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
    if option.is_required or option.is_tuple or option.default in (None, "", False):
        return option.help.replace("%", "%%")
    default = "on" if option.default is True else option.default
    shown = f"{default:g}" if isinstance(default, float) else default
    return f"{option.help} (default: {shown})".replace("%", "%%")


def _items(option: Option, text: str) -> list[Any]:
    try:
        return [option.kind(item) for item in text.split(",") if item]
    except ValueError:
        kind = {int: "whole numbers", float: "numbers"}[option.kind]
        raise argparse.ArgumentTypeError(
            f"must be {kind} separated by commas, got {text!r}"
        ) from None


def _spelled(arguments: Sequence[str], known: Sequence[Option]) -> list[str]:
    """Replaces underscores in flags by hyphens. The error for an unknown flag names the nearest."""
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
