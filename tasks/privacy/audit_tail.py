"""Estimates how much one person's absence changes the texts that a model writes.

tff-keyboard audit-tail RUN RUN_WITHOUT_SOMEONE
tff-keyboard audit-tail --config=configs/demo.toml --workdir=runs/audit --left-out=0,3,7

The empirical differential privacy of Popov et al. 2018: texts are drawn from the model trained on
everyone and from the one trained without a person, each text's probability under one model is
divided by that under the other, and the Pareto tail of these ratios gives epsilon at a delta, in
both directions. With --config both models are trained here, once for everyone and once for each
person left out (positions in sorted order), in WORKDIR/all and WORKDIR/without_<position>;
after an interruption, run the same command again. A model may also be a saved model's directory.

This is an estimate from one training, not a guarantee; docs/privacy/tail_audit.md says what it
leaves out. Where the run kept a privacy ledger, the formal epsilon is printed beside it.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence
from typing import Annotated

from ..options import Range, TaskOptions, Words
from tff_keyboard import config as config_lib
from tff_keyboard.host import progress, quiet
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.storage.model_description import read_description
from tff_keyboard.training import preflight


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    models: Annotated[
        tuple[pathlib.Path, ...], Words("two run directories, with and without a person")
    ] = ()
    config: Annotated[pathlib.Path | None, "TOML file of the run to train and audit."] = None
    workdir: Annotated[
        pathlib.Path | None, "With --config: folder of the runs; existing ones are resumed."
    ] = None
    left_out: Annotated[
        tuple[int, ...],
        "With --config: positions of train clients, each left out of a training of its own.",
    ] = ()
    set: Annotated[
        tuple[str, ...], "With --config: override `section.key=value`; may be repeated."
    ] = ()
    texts: Annotated[int, "Texts drawn from each model.", Range(100)] = 10_000
    words: Annotated[int, "Words of each text.", Range(1)] = 10
    delta: Annotated[float, "An epsilon is given at this delta, if --texts can show it."] = 1e-3
    epsilon: Annotated[float, "A delta is given at this epsilon, too.", Range(0)] = 1.0
    seed: Annotated[int, "Seed of the texts and of the test.", Range(0)] = 1
    out: Annotated[
        pathlib.Path | None,
        "File for all figures; by default WORKDIR/audit_tail.json with --config, and none without.",
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta must be in (0, 1), got {self.delta}.")
        if self.config is None:
            if self.workdir or self.left_out or self.set:
                raise UsageError("--workdir, --left-out and --set need --config=FILE.toml.")
            if len(self.models) != 2:
                raise UsageError(
                    "Give two run directories, with and without a person, or --config, --workdir "
                    f"and --left-out; got {len(self.models)} arguments. See --help."
                )
        elif self.models:
            raise UsageError(f"--config trains the models itself; got '{self.models[0]}' as well.")
        elif self.workdir is None:
            raise UsageError("Give --workdir=DIRECTORY, where the runs are kept.")
        elif not self.left_out:
            raise UsageError("Give --left-out=POSITIONS, such as 0,3,7: who is left out.")


def run(options: Options) -> None:
    """Audits the two models, or trains those of --config and audits them."""
    if options.workdir is None:
        full, other = options.models
        for path in (full, other):
            read_description(path)  # before TensorFlow is imported
        audit(full, [other], options, options.out)
        return
    config = config_lib.load(options.config, options.set)
    preflight.check_population(config)
    quiet.import_tensorflow_federated()
    from tff_keyboard.audits.leave_one_out import train_without_each

    full, others = train_without_each(config, options.workdir, options.left_out)
    audit(full, others, options, options.out or options.workdir / names.TAIL_AUDIT)


def audit(
    full: pathlib.Path, others: Sequence[pathlib.Path], options: Options, out: pathlib.Path | None
) -> None:
    """Audits pairs of trained models, prints the table and writes the figures to `out`."""
    if out is not None:
        files.make_directory(out.parent)  # before the work, not after it
    quiet.import_tensorflow()
    from tff_keyboard.audits import model_pairs, tail_report
    from tff_keyboard.audits.tail_audit import Settings

    settings = Settings(
        num_texts=options.texts,
        num_words=options.words,
        delta=options.delta,
        epsilon=options.epsilon,
        seed=options.seed,
    )
    total = model_pairs.num_passes(len(others))
    with progress.Progress("audit", total=total, unit="passes") as line:
        passes = itertools.count(1)
        result = model_pairs.audit_pairs(full, others, settings, lambda: line.update(next(passes)))
    print(tail_report.table(result))
    if out is not None:
        files.write_atomically(out, [result.to_json().encode()])
        print(f"\nAll figures: {out}")
