"""tff-keyboard trains next-word models with federated learning and exports them for the phone.

Usage: tff-keyboard TASK [flags]      tff-keyboard TASK --help      tff-keyboard --version
"""

import atexit
import contextlib
import functools
import importlib
import os
import signal
import sys
from types import ModuleType

import tff_keyboard
from tff_keyboard.command_line.commands import Command, find_commands

# The groups in the order of the list. The groups that only a package has follow.
_GROUPS = ("Start", "Data", "Train", "Devices", "Evaluate", "Privacy", "Phone")
_CORE_COMMANDS = {
    "Start": {
        "doctor": "check this machine: packages, TensorFlow Federated, disk",
    },
    "Data": {
        "prepare": "turn per-user text into a client store and a vocabulary",
        "advise": "recommend a config for a store, and estimate minutes and recall",
        "merge-vocabulary": "build one vocabulary for several client stores",
    },
    "Train": {
        "train": "train a model with federated learning; run again to resume",
        "train-server": "train the same model centrally on pooled text, for comparison",
        "cluster": "list the nodes of a Ray cluster, and check that they can be used",
    },
    "Evaluate": {
        "evaluate": "measure recall, keystrokes saved and perplexity on held-out clients",
        "compare": "measure several models side by side, with intervals and a verdict",
        "report": "write one HTML page about a run or a comparison",
    },
    "Privacy": {
        "privacy": "print the privacy guarantee of a run, or plan the noise of the next one",
    },
    "Phone": {
        "export": "write a model as a TFLite keyboard model, and check it",
        "verify": "check that an export is complete, unchanged and signed",
    },
}
INTERRUPTED, TERMINATED = 130, 143  # as shells report signals


@functools.cache
def commands() -> dict[str, Command]:
    """Returns the commands by name: those of the core, then those of installed packages.

    Raises:
      ProgramError: If two commands have the same name.
    """
    return find_commands(
        Command(group, name, f"{__package__}.{group.lower()}.{name.replace('-', '_')}", line)
        for group, lines in _CORE_COMMANDS.items()
        for name, line in lines.items()
    )


def module_of(name: str) -> ModuleType:
    """Imports the module of a command."""
    return importlib.import_module(commands()[name].module)


def usage() -> str:
    """Returns the module docstring and the list of commands, by group."""
    width = max(map(len, commands()))
    lines: dict[str, list[str]] = {group: [] for group in _GROUPS}
    for name, command in commands().items():
        lines.setdefault(command.group, []).append(f"  {name:{width}}  {command.description}")
    parts = ["\n".join([group, *rows]) for group, rows in lines.items() if rows]
    return "\n\n".join([(__doc__ or "").strip(), *parts, f"Exit codes\n{_exit_codes()}"])


def _exit_codes() -> str:
    from tff_keyboard.command_line import cli

    return (cli.__doc__ or "").split("Exit codes:\n", 1)[1].rstrip()


def main() -> None:
    """Runs the task named by the first argument. Ctrl-C prints one line, even during imports."""
    try:
        _main(sys.argv[1:])
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        _end_at_once(INTERRUPTED)
    except SystemExit as end:
        if isinstance(end.code, int) and end.code in (INTERRUPTED, TERMINATED):
            _end_at_once(end.code)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the task has finished
        raise


def _end_at_once(code: int) -> None:
    """Ends an interrupted process without the interpreter's shutdown.

    A thread that still runs in TensorFlow or gRPC would abort the shutdown with "FATAL: exception
    not rethrown".
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # absl closes the stream that it logged to
            stream.flush()
    os._exit(code)


def _main(arguments: list[str]) -> None:
    """Runs the task that the first argument names. Ends the process with its exit code."""
    from tff_keyboard.command_line import cli
    from tff_keyboard.host import output
    from tff_keyboard.storage.errors import ProgramError

    name = arguments[0] if arguments else "help"
    if name == "--version":
        print(f"tff-keyboard {tff_keyboard.__version__}")
        sys.exit(cli.OK)
    try:
        names = list(commands())
    except ProgramError as error:
        cli.fail(str(error))
        sys.exit(error.exit_code)
    if name in ("--help", "-h", "help"):
        with output.ignore_broken_pipe():
            print(usage())
        sys.exit(cli.OK if arguments else cli.USAGE)
    if name not in names:
        import difflib

        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else f" Tasks: {', '.join(names)}."
        cli.fail(f"Unknown task '{name}'.{hint}")
        sys.exit(cli.USAGE)
    sys.exit(cli.launch(module_of(name), arguments[1:]))


if __name__ == "__main__":
    main()
