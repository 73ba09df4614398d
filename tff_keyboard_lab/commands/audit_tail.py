"""Estimates how much the text of one client changes the texts that a model generates.

tff-keyboard audit-tail RUN RUN_WITHOUT_ONE_CLIENT
tff-keyboard audit-tail --config=configs/demo.toml --workdir=runs/audit --excluded-client=0,3,7

This is the empirical differential privacy of Popov et al. 2018. Texts are drawn from two models:
one trained on all clients, and one trained without one client. For each text, the task divides its
probability under one model by its probability under the other. The Pareto tail of these ratios
gives epsilon at a delta, in both directions. Arguments are run directories or directories of saved
models.

With --config the task trains the models: one on all clients in WORKDIR/all, and one without each
client of --excluded-client (positions in sorted order) in WORKDIR/without_<position>. After an
interruption, run the same command again.

The result is an estimate from one training, not a guarantee; docs/privacy/tail_audit.md explains
its limits. If the run has a privacy ledger, the formal epsilon of its statement, or NO CLAIM,
is printed next to the estimate.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence
from typing import Annotated

from absl import flags

from tff_keyboard import config as config_lib
from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.host import progress, quiet
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.storage.model_description import read_description
from tff_keyboard.training import preflight
from tff_keyboard_lab import file_names


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `audit-tail`."""

    resumes = True

    models: Annotated[
        tuple[pathlib.Path, ...], Positional("two run directories, with and without one client")
    ] = ()
    config: Annotated[pathlib.Path | None, "TOML file of the run to train and audit."] = None
    workdir: Annotated[
        pathlib.Path | None, "With --config: folder of the runs. Existing ones are resumed."
    ] = None
    excluded_client: Annotated[
        tuple[int, ...],
        "With --config: positions of train clients. One training leaves out each.",
    ] = ()
    set: Annotated[
        tuple[str, ...], "With --config: override a config key: `section.key=value`. Repeatable."
    ] = ()
    texts: Annotated[int, "Number of texts drawn from each model.", flags.IntegerParser(100)] = (
        10_000
    )
    words: Annotated[int, "Number of words in each text.", flags.IntegerParser(1)] = 10
    delta: Annotated[float, "Report epsilon at this delta, if --texts is large enough."] = 1e-3
    epsilon: Annotated[float, "Also report delta at this epsilon.", flags.FloatParser(0)] = 1.0
    seed: Annotated[int, "Seed of the texts and of the test.", flags.IntegerParser(0)] = 1
    out: Annotated[
        pathlib.Path | None,
        "JSON file for all figures. Default: WORKDIR/audit_tail.json with --config, none without.",
    ] = None

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta must be in (0, 1), got {self.delta}.")
        if self.config is None:
            if self.workdir or self.excluded_client or self.set:
                raise UsageError(
                    "--workdir, --excluded-client and --set require --config=FILE.toml."
                )
            if len(self.models) != 2:
                raise UsageError(
                    "Pass two run directories, with and without one client, or --config, --workdir "
                    f"and --excluded-client; got {len(self.models)} arguments. See --help."
                )
        elif self.models:
            raise UsageError(
                f"--config trains the models, so it takes no arguments; got '{self.models[0]}'."
            )
        elif self.workdir is None:
            raise UsageError("Pass --workdir=DIRECTORY, the folder for the runs.")
        elif not self.excluded_client:
            raise UsageError(
                "Pass --excluded-client=POSITIONS, for example 0,3,7: the clients to leave out."
            )


def run(options: Options) -> None:
    """Audits two models, or trains the models of --config and audits them."""
    if options.workdir is None:
        full, other = options.models
        for path in (full, other):
            read_description(path)  # before TensorFlow is imported
        audit(full, [other], options, options.out)
        return
    config = config_lib.load(options.config, options.set)
    preflight.check_population(config.data.store, config.train, config.aggregation.rule)
    preflight.check_defence(config.train, config.aggregation.rule)
    quiet.import_tensorflow_federated()
    from tff_keyboard_lab.audits.leave_one_out import train_without_each

    full, models_without = train_without_each(config, options.workdir, options.excluded_client)
    audit(full, models_without, options, options.out or options.workdir / file_names.TAIL_AUDIT)


def audit(
    full: pathlib.Path,
    models_without: Sequence[pathlib.Path],
    options: Options,
    out: pathlib.Path | None,
) -> None:
    """Audits pairs of trained models, prints the table and writes the figures to `out`."""
    if out is not None:
        files.make_directory(out.parent)  # fail here, not after hours of work
    quiet.import_tensorflow()
    from tff_keyboard_lab.audits import model_pairs, tail_report
    from tff_keyboard_lab.audits.tail_audit import Settings

    settings = Settings(
        num_texts=options.texts,
        num_words=options.words,
        delta=options.delta,
        epsilon=options.epsilon,
        seed=options.seed,
    )
    total = model_pairs.num_passes(len(models_without))
    with progress.Progress("audit", total=total, unit="passes") as line:
        passes = itertools.count(1)
        result = model_pairs.audit_pairs(
            full, models_without, settings, lambda: line.update(next(passes))
        )
    print(tail_report.table(result))
    if out is not None:
        files.write_atomically(out, [result.to_json().encode()])
        print(f"\nAll figures: {out}")
