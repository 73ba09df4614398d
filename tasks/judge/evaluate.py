"""Evaluates a trained run on people it never trained on.

tff-keyboard evaluate RUN_DIR [--clients=held_out] [--store=data/other] [--all] [--cluster=H:P]

Prints recall, keystrokes saved and perplexity over all words, with 95 % jackknife intervals over
people. --all adds the other metrics, the mean in which every person counts once and the tenth of
the people served worst; where the model is better or worse (place in the message, its length,
frequency of the word, heavy and light typists), the deciles over people, and whether the
probabilities on the strip can be believed. All of it goes to RUN_DIR/evaluation_<clients>.json. A
fine-tuning run is evaluated on its general corpus as well. --cluster counts on the nodes of a Ray
cluster and gives the same digits.
"""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

from ..options import Cluster, Population, Range, TaskOptions, Words
from tff_keyboard.host import quiet
from tff_keyboard.storage.model_description import read_description
from tff_keyboard.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from tff_keyboard.evaluation.results.result import Evaluation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    run_dir: Annotated[pathlib.Path, Words("a run directory")]
    clients: Annotated[Population, "Population to evaluate on."] = "held_out"
    store: Annotated[
        pathlib.Path | None,
        "Client store with the run's vocabulary; the one it was trained on if left out.",
    ] = None
    max_length: Annotated[int, "Most words of a message that count; 0 for all.", Range(0)] = 0
    out: Annotated[
        pathlib.Path | None, "JSON file; RUN_DIR/evaluation_<clients>.json if left out."
    ] = None
    all: Annotated[bool, "Print all metrics, slices, deciles and calibration, too."] = False
    temperature: Annotated[
        bool, "Fit a temperature on validation people, too, and say what it would change."
    ] = False
    cluster: Cluster = ""


def run(options: Options) -> "Evaluation":
    """Evaluates, writes the JSON file and prints."""
    run = RunDirectory.open(options.run_dir)
    out = options.out or run.evaluation_path(options.clients)
    read_description(run.path)  # before TensorFlow is imported
    quiet.import_tensorflow()
    from tff_keyboard.evaluation import run_evaluation
    from tff_keyboard.report import slice_text
    from tff_keyboard.training.on_cluster.evaluation_on_nodes import on_nodes

    with on_nodes(options.cluster) as elsewhere:
        evaluation = run_evaluation.evaluate_run(
            options.run_dir,
            options.clients,
            store_path=options.store,
            max_length=options.max_length,
            elsewhere=elsewhere,
        )
    run_evaluation.write_evaluation(out, evaluation)
    print(slice_text.evaluation_text(evaluation, everything=options.all))
    if options.temperature:
        found = run_evaluation.fit_temperature(
            options.run_dir,
            options.clients,
            store_path=options.store,
            max_length=options.max_length,
        )
        print(f"\n{slice_text.temperature_line(evaluation, found)}")
    more = "" if options.all else "--all prints more. "
    print(f"\n{more}All metrics, per-person sums and slices: {out}")
    return evaluation
