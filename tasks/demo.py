"""`make demo`: the whole chain on synthetic typists, in a minute. Run again, it resumes or is done.

python -m tasks.demo

The tasks are those of `tff-keyboard`, one after the other in one process: TensorFlow, which three
of them need, is imported once.
"""

import sys

from . import cli
from .__main__ import module_of

STEPS = (
    (
        "Text of synthetic typists becomes a client store",
        ("prepare", "--config=configs/demo.toml"),
    ),
    (
        "Federated training",
        ("train", "--config=configs/demo.toml", "--workdir=runs/demo"),
    ),
    (
        "Evaluation on people the model never trained on",
        ("evaluate", "runs/demo"),
    ),
    (
        "Against ranking words by how often train users typed them",
        ("compare", "runs/demo", "unigram", "--clients=held_out", "--out=runs/demo/comparison"),
    ),
)


def main() -> int:
    """Runs the steps until one fails; its exit code, or 0."""
    for number, (title, (task, *arguments)) in enumerate(STEPS):
        print(f"== {title}" if not number else f"\n== {title}", flush=True)
        code = cli.launch(module_of(task), arguments)
        if code != cli.OK:
            return code
    return cli.OK


if __name__ == "__main__":
    sys.exit(main())
