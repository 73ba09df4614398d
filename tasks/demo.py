"""Runs `make demo`: prepares, trains and evaluates on synthetic clients, in about a minute.

python -m tasks.demo

A second run resumes, or does nothing if all is done. The tasks of `tff-keyboard` run one after the
other in one process, because three of them need TensorFlow and its import takes seconds.
"""

import sys

from .__main__ import module_of
from tff_keyboard.command_line import cli

STEPS = (
    (
        "Prepare a client store from the text of synthetic clients",
        ("prepare", "--config=configs/demo.toml"),
    ),
    (
        "Train with federated learning",
        ("train", "--config=configs/demo.toml", "--workdir=runs/demo"),
    ),
    (
        "Evaluate on clients that the model never trained on",
        ("evaluate", "runs/demo"),
    ),
    (
        "Compare with a baseline that ranks words by frequency",
        ("compare", "runs/demo", "unigram", "--clients=held_out", "--out=runs/demo/comparison"),
    ),
)


def main() -> int:
    """Runs the steps until one fails. Returns its exit code, or 0."""
    for number, (title, (task, *arguments)) in enumerate(STEPS):
        print(f"== {title}" if not number else f"\n== {title}", flush=True)
        code = cli.launch(module_of(task), arguments)
        if code != cli.OK:
            return code
    return cli.OK


if __name__ == "__main__":
    sys.exit(main())
