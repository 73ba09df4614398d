"""tff-keyboard: federated next-word models, from people's text to a model on the phone.

Usage: tff-keyboard TASK [flags]      tff-keyboard TASK --help      tff-keyboard --version
"""

import importlib
import sys
from types import ModuleType

import tff_keyboard

# Task -> one line, here so that the list prints without importing a task.
TASKS = {
    "doctor": "check this machine: packages, TFF worker, disk",
    "cluster": "certificates and nodes of a Ray cluster, and whether they fit",
    "prepare": "turn per-user text into a client store and a vocabulary",
    "advise": "what to train on a store: config, rounds, minutes, recall to expect",
    "merge-vocabulary": "one vocabulary for several client stores",
    "train": "train a model federatedly; run again to resume",
    "train-server": "train the same model on the pooled text, as a yardstick",
    "evaluate": "recall and perplexity on held-out clients, with intervals",
    "communication": "what a run sent: model, rehearsal, uploads, total",
    "privacy": "what a run may claim: epsilon, delta and every assumption",
    "audit": "how well a model knows phrases that were planted in its text",
    "audit-tail": "estimate what texts of the model show of one person",
    "events": "click-through and impression recall from keyboards' logs",
    "power": "how many people a test needs to see a lift",
    "study": "train a table of runs with seeds and a control, and judge them",
    "attack": "train a rule clean and under attack, and compare",
    "compare": "recall and keystrokes of several models, side by side",
    "report": "one HTML page about a run or a comparison",
    "export": "write the model as a TFLite keyboard model, and check it",
    "verify": "check an export: whole, fitting, signed",
    "play": "type on an exported model, in the browser or the terminal",
    "personalise": "train an exported model on one person's messages",
    "personalise-all": "the same for each of many people: whom it helps and harms",
}


def module_of(task: str) -> ModuleType:
    """The module of a task, imported."""
    return importlib.import_module(f"tasks.{task.replace('-', '_')}")


def usage() -> str:
    """The module docstring and the list of tasks."""
    width = max(map(len, TASKS))
    rows = "\n".join(f"  {name:{width}}  {line}" for name, line in TASKS.items())
    return f"{(__doc__ or '').strip()}\n\nTasks:\n{rows}\n\nExit codes:\n{_exit_codes()}"


def _exit_codes() -> str:
    from tasks import cli

    return (cli.__doc__ or "").split("Exit codes:\n", 1)[1].rstrip()


def main() -> None:
    """Runs the task named by the first word; Ctrl-C is one line from the first import on."""
    try:
        _main(sys.argv[1:])
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        sys.exit(130)


def _main(arguments: list[str]) -> None:
    from tasks import cli

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
