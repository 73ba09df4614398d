"""tff-keyboard trains next-word models with federated learning and exports them for the phone.

Usage: tff-keyboard TASK [flags]      tff-keyboard TASK --help      tff-keyboard --version
"""

import atexit
import contextlib
import importlib
import importlib.util
import os
import signal
import sys
from types import ModuleType

import tff_keyboard

# Group -> task -> one line. They are here so that the list prints without importing a task.
_ALL_GROUPS = {
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
        "study": "train several configs with several seeds, and compare them to a control",
        "attack": "train an aggregator with and without attackers, and compare",
        "cluster": "list the nodes of a Ray cluster, and check that they can be used",
    },
    "Devices": {
        "serve-rounds": "train with devices; run again to resume",
        "fleet": "show the progress of a training with devices",
        "device": "take part in a server's rounds with the text typed on this device",
    },
    "Evaluate": {
        "evaluate": "measure recall, keystrokes saved and perplexity on held-out clients",
        "compare": "measure several models side by side, with intervals and a verdict",
        "report": "write one HTML page about a run or a comparison",
    },
    "Privacy": {
        "privacy": "print the privacy guarantee of a run, or plan the noise of the next one",
        "audit": "measure how well a model remembers phrases planted in its text",
        "audit-tail": "estimate how much a model's texts reveal about one client",
    },
    "Phone": {
        "export": "write a model as a TFLite keyboard model, and check it",
        "word-list": "write a word list for HeliBoard and other AOSP keyboards",
        "verify": "check that an export is complete, unchanged and signed",
        "spelling": "count how a keyboard handles misspelled words",
        "play": "type on an exported model in the browser or the terminal",
        "personalise": "fine-tune an exported model on the messages of one client, or of many",
        "events": "compute click-through rate and impression recall from keyboard logs",
    },
}
# Tasks that need more than the core: hidden if their package is not installed.
_SATELLITES = {
    "tff_keyboard_app": ("word-list", "spelling", "play", "personalise", "events"),
    "tff_keyboard_fleet": ("serve-rounds", "fleet", "device"),
    "tff_keyboard_lab": ("study", "attack", "audit", "audit-tail"),
}
_MISSING = {
    task
    for package, tasks in _SATELLITES.items()
    if importlib.util.find_spec(package) is None
    for task in tasks
}
GROUPS = {
    name: found
    for name, tasks in _ALL_GROUPS.items()
    if (found := {task: line for task, line in tasks.items() if task not in _MISSING})
}
INTERRUPTED, TERMINATED = 130, 143  # as shells report signals
TASKS = [task for group in GROUPS.values() for task in group]


def module_of(task: str) -> ModuleType:
    """Imports the module of a task."""
    group = next(group for group, tasks in GROUPS.items() if task in tasks).lower()
    return importlib.import_module(f".{group}.{task.replace('-', '_')}", __package__)


def usage() -> str:
    """Returns the module docstring and the list of tasks, by group."""
    width = max(map(len, TASKS))
    parts = [(__doc__ or "").strip()]
    for group, tasks in GROUPS.items():
        parts.append("\n".join([group, *(f"  {task:{width}}  {tasks[task]}" for task in tasks)]))
    return "\n\n".join([*parts, f"Exit codes\n{_exit_codes()}"])


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
    from tff_keyboard.command_line import cli
    from tff_keyboard.host import output

    if not arguments or arguments[0] in ("--help", "-h", "help"):
        with output.ignore_broken_pipe():
            print(usage())
        sys.exit(cli.OK if arguments else cli.USAGE)
    name = arguments[0]
    if name == "--version":
        print(f"tff-keyboard {tff_keyboard.__version__}")
        sys.exit(cli.OK)
    if name not in TASKS:
        import difflib

        near = difflib.get_close_matches(name, TASKS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else f" Tasks: {', '.join(TASKS)}."
        cli.fail(f"Unknown task '{name}'.{hint}")
        sys.exit(cli.USAGE)
    sys.exit(cli.launch(module_of(name), arguments[1:]))


if __name__ == "__main__":
    main()
