"""Makes the golden run of this version: what a small private training leaves on disk.

    python -m tests.golden.make

writes `tests/golden/VERSION/`: `store`, `finished` (four rounds and an evaluation) and `stopped`
(the same, as a kill after the second round leaves it). Later versions must read them, see
`test_golden_run.py`; so it is made once, by
the commit that is released. Files that nothing reads again are left out.
"""

import json
import os
import pathlib
import shutil
import tempfile

import tff_keyboard
from tasks.data import prepare
from tasks.evaluate import evaluate
from tasks.train import train
from tff_keyboard.command_line import cli

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = pathlib.Path(__file__).parent / tff_keyboard.__version__
SETTINGS = (
    "data.store=store",
    "data.synthetic_typists=24",
    "data.synthetic_messages=12",
    "data.vocabulary_size=120",
    "data.validation_fraction=0.2",
    "data.held_out_fraction=0.2",
    "model.units=12",
    "model.embedding_size=8",
    "client.max_examples=8",
    "aggregation.client_weighting=uniform",
    'aggregation.privacy={type="blt", noise_multiplier=0.5, clip_norm=0.3, '
    f'fixed_nonce="{"0f" * 16}"}}',
    "train.rounds=4",
    "train.clients_per_round=3",
    "train.min_separation_rounds=2",
    "train.checkpoint_every=2",
    "train.keep_checkpoints=2",
    "evaluation.every=2",
    "execution.threads=1",
)
LEFT_OUT = ("checkpoints", "lock", "logs", "tensorboard", "*.csv")


def main() -> None:
    """Makes it in a temporary folder and puts it in place."""
    config = [f"--config={ROOT / 'configs' / 'demo.toml'}", *(f"--set={s}" for s in SETTINGS)]
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for task, words in (
            (prepare, config),
            (train, [*config, "--workdir=finished"]),
            (evaluate, ["finished"]),
        ):
            assert cli.launch(task, words) == cli.OK
        shutil.rmtree(GOLDEN, ignore_errors=True)
        shutil.copytree("store", GOLDEN / "store")
        shutil.copytree("finished", GOLDEN / "finished", ignore=shutil.ignore_patterns(*LEFT_OUT))
        kept = shutil.ignore_patterns("model", "evaluation_*", "round_00000004*", *LEFT_OUT[1:])
        shutil.copytree("finished", GOLDEN / "stopped", ignore=kept)
        for name, lines in [("privacy_ledger", 3), ("metrics", 2), ("withheld_metrics", 2)]:
            path = GOLDEN / "stopped" / f"{name}.jsonl"
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
        (evaluation,) = (GOLDEN / "finished").glob("evaluation_*.json")
        evaluation.write_text(json.dumps(json.loads(evaluation.read_text())) + "\n")  # one line
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
