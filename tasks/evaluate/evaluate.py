"""Evaluates a trained run on clients that it never trained on.

tff-keyboard evaluate RUN_DIR [--clients=held_out] [--store=data/other] [--all] [--cluster=H:P]

Prints recall, keystrokes saved and perplexity over all words, with 95 % jackknife intervals over
clients. --all also prints:
  the other metrics, the mean in which each client has equal weight, and the worst tenth of clients
  slices by place in the message, message length, word frequency, and heavy or light typists
  the deciles over clients
  the calibration of the probabilities on the strip

All results are written to RUN_DIR/evaluation_<clients>.json. A fine-tuned run is also evaluated on
its general corpus. --cluster evaluates on the nodes of a Ray cluster and gives the same digits.
"""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

from tff_keyboard.command_line.options import Cluster, Population, Positional, TaskOptions
from tff_keyboard.host import quiet
from tff_keyboard.storage.model_description import read_description
from tff_keyboard.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from tff_keyboard.evaluation.results.result import Evaluation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `evaluate`."""

    run_dir: Annotated[pathlib.Path, Positional("a run directory")]
    clients: Annotated[Population, "Population to evaluate on."] = "held_out"
    store: Annotated[
        pathlib.Path | None,
        "Client store with the run's vocabulary. Default: the store of the training.",
    ] = None
    out: Annotated[
        pathlib.Path | None, "JSON file to write. Default: RUN_DIR/evaluation_<clients>.json."
    ] = None
    all: Annotated[bool, "Also print all metrics, slices, deciles and calibration."] = False
    cluster: Cluster = ""


def run(options: Options) -> "Evaluation":
    """Evaluates, writes the JSON file and prints."""
    run = RunDirectory.open(options.run_dir)
    out = options.out or run.evaluation_path(options.clients)
    read_description(run.path)  # before TensorFlow is imported
    quiet.import_tensorflow()
    from tff_keyboard.evaluation import run_evaluation
    from tff_keyboard.evaluation.report import slice_text
    from tff_keyboard.training.on_cluster.evaluation_on_nodes import on_nodes

    with on_nodes(options.cluster) as elsewhere:
        evaluation = run_evaluation.evaluate_run(
            options.run_dir,
            options.clients,
            store_path=options.store,
            elsewhere=elsewhere,
        )
    run_evaluation.write_evaluation(out, evaluation)
    print(slice_text.evaluation_text(evaluation, everything=options.all))
    more = "" if options.all else "--all prints more. "
    print(f"\n{more}All metrics, sums per client and slices: {out}")
    return evaluation
