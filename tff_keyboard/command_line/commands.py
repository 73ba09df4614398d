"""The commands of `tff-keyboard`, and how a package registers its own.

A package lists its commands in a module that imports nothing else, and registers the list as an
entry point of the group `tff_keyboard.commands`:

    # my_package/commands/__init__.py
    COMMANDS = (
        Command("Data", "count-words", "my_package.commands.count_words", "count words of a store"),
    )

    # pyproject.toml
    [project.entry-points."tff_keyboard.commands"]
    my_package = "my_package.commands:COMMANDS"

The module of a command has `Options` and `run(options)` (see `options.py`). It is imported when the
command runs.
"""

from collections.abc import Iterable
from typing import NamedTuple

GROUP = "tff_keyboard.commands"


class Command(NamedTuple):
    """A command of the console.

    Attributes:
      group: Heading of the list of commands under which the command appears.
      name: The name as typed, with hyphens.
      module: The module of the command. Its last part is the name with underscores.
      description: One line for the list of commands, beginning with a verb in lower case.
    """

    group: str
    name: str
    module: str
    description: str


def program() -> tuple[str, ...]:
    """Returns the command that starts `tff-keyboard` in another process of this Python."""
    from importlib import metadata

    from tff_keyboard.host import children

    script = next(iter(metadata.entry_points(group="console_scripts", name="tff-keyboard")))
    return tuple(children.python_module(script.module.removesuffix(".__main__")))


def find_commands(core: Iterable[Command]) -> dict[str, Command]:
    """Returns the commands of the core and of all installed packages, by name.

    Raises:
      ProgramError: If two commands have the same name.
    """
    from tff_keyboard.storage import entry_points  # a list of commands imports this module quickly
    from tff_keyboard.storage.errors import ProgramError

    registered = [c for point in entry_points.find(GROUP).values() for c in point.load()]
    commands: dict[str, Command] = {}
    for command in (*core, *registered):
        if command.name in commands:
            raise ProgramError(
                f"Two packages have a command '{command.name}': {commands[command.name].module} "
                f"and {command.module}. Uninstall one of the packages."
            )
        commands[command.name] = command
    return commands
