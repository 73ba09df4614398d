"""tff-keyboard: federated next-word models, from people's text to a model on the phone.

Usage: tff-keyboard TASK [flags]      tff-keyboard TASK --help      tff-keyboard --version
"""

import atexit
import contextlib
import importlib
import os
import signal
import sys
from types import ModuleType

import tff_keyboard

# Group -> task -> one line; here, so that the list prints without importing a task.
GROUPS = {
    "Start": {
        "doctor": "check this machine: packages, TFF worker, disk",
    },
    "Data": {
        "prepare": "turn per-user text into a client store and a vocabulary",
        "advise": "what to train on a store: config, rounds, minutes, recall to expect",
        "merge-vocabulary": "one vocabulary for several client stores",
    },
    "Train": {
        "train": "train a model federatedly; run again to resume",
        "train-server": "train the same model on the pooled text, as a yardstick",
        "study": "train a table of runs with seeds and a control, and judge them",
        "attack": "train a rule clean and under attack, and compare",
        "cluster": "certificates and nodes of a Ray cluster, and whether they fit",
    },
    "Devices": {
        "serve-rounds": "train on what devices send over HTTPS; run again to resume",
        "fleet": "how the rounds with devices stand",
        "device": "take part in the rounds of a server with what was typed here",
    },
    "Judge": {
        "evaluate": "recall, keystrokes saved, perplexity on held-out clients",
        "compare": "the same of several models, side by side, with a verdict",
        "report": "one HTML page about a run or a comparison",
        "communication": "what a run sent: model, rehearsal, uploads, total",
        "power": "how many people a test needs to see a lift",
    },
    "Privacy": {
        "privacy": "what a run may claim: epsilon, delta and every assumption",
        "audit": "how well a model knows phrases that were planted in its text",
        "audit-tail": "estimate what texts of the model show of one person",
    },
    "Phone": {
        "export": "write the model as a TFLite keyboard model, and check it",
        "verify": "check an export: whole, fitting, signed",
        "play": "type on an exported model, in the browser or the terminal",
        "personalise": "train an exported model on a person's messages, or on each of many's",
        "events": "click-through and impression recall from keyboards' logs",
    },
}
INTERRUPTED, TERMINATED = 130, 143  # as shells report signals
TASKS = [task for group in GROUPS.values() for task in group]


def module_of(task: str) -> ModuleType:
    """The module of a task, imported."""
    group = next(group for group, tasks in GROUPS.items() if task in tasks).lower()
    return importlib.import_module(f".{group}.{task.replace('-', '_')}", __package__)


def usage() -> str:
    """The module docstring and the tasks, group by group."""
    width = max(map(len, TASKS))
    parts = [(__doc__ or "").strip()]
    for group, tasks in GROUPS.items():
        parts.append("\n".join([group, *(f"  {task:{width}}  {tasks[task]}" for task in tasks)]))
    return "\n\n".join([*parts, f"Exit codes\n{_exit_codes()}"])


def _exit_codes() -> str:
    from . import cli

    return (cli.__doc__ or "").split("Exit codes:\n", 1)[1].rstrip()


def main() -> None:
    """Runs the task named by the first word; Ctrl-C is one line from the first import on."""
    try:
        _main(sys.argv[1:])
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        _end_at_once(INTERRUPTED)
    except SystemExit as end:
        if isinstance(end.code, int) and end.code in (INTERRUPTED, TERMINATED):
            _end_at_once(end.code)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done and said
        raise


def _end_at_once(code: int) -> None:
    """Ends an interrupted process, but does not take Python down: a thread that TensorFlow or gRPC
    still works in would abort it ("FATAL: exception not rethrown")."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # absl closes the stream that it logged to
            stream.flush()
    os._exit(code)


def _main(arguments: list[str]) -> None:
    from . import cli

    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(usage())
        sys.exit(cli.OK if arguments else cli.USAGE)
    name = arguments[0]
    if name == "--version":
        print(f"tff-keyboard {tff_keyboard.__version__}")
        sys.exit(cli.OK)
    if name not in TASKS:
        import difflib

        near = difflib.get_close_matches(name, TASKS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else f" Known: {', '.join(TASKS)}."
        cli.fail(f"Unknown task '{name}'.{hint}")
        sys.exit(cli.USAGE)
    sys.exit(cli.launch(module_of(name), arguments[1:]))


if __name__ == "__main__":
    main()
