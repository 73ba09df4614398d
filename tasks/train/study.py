"""Trains the runs of a study, several seeds and arms, and makes its tables and pictures.

tff-keyboard study ablation_irc --workdir=runs/ablation --plan
tff-keyboard study my/study.toml --workdir=runs/mine [--jobs=2]

A study is a TOML file: a question, arms (each a config), a control, seeds, and sweeps of a key;
one of configs/studies may be given by its name. --plan says how many runs, tokens and hours it
takes, and trains nothing; nor does --tables, which judges the runs that are finished. Every run is
a run directory in WORKDIR; a finished one is skipped, so after an interruption run the same command
again. All arms train with the first seed before any does with the second; --seeds and --arm train a
part of them, and --tables afterwards judges all that is finished. Once the [budget] of the file is
used up no further run begins, and the exit code is 4, as where a run fails. One study at a time
trains in a WORKDIR. With --set=execution.engine=ray each of --jobs trainings has a node of a
cluster. After each run WORKDIR/study.json, study.md and curves.png are written anew, and with
--markdown the tables stand between `<!-- table: NAME -->` and `<!-- end: NAME -->`, where NAME is
the stem of the study's file.

A rule is "better" or "worse" only with three seeds or more whose interval over people and seeds
lies on one side of the control and whose own differences all do.
"""

import dataclasses
import pathlib
import sys
from typing import Annotated

from ..options import Range, TaskOptions, Words
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.study.plan import plan, shipped, study_file
from tff_keyboard.study.runs import estimate
from tff_keyboard.training import preflight


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    study: Annotated[pathlib.Path, Words("a study's TOML file or name")]
    workdir: Annotated[pathlib.Path, "Folder of the runs; existing ones are resumed."]
    plan: Annotated[
        bool, "Only say what the study would take; its stores must have been prepared."
    ] = False
    tables: Annotated[bool, "Train nothing; make tables and pictures of what is finished."] = False
    jobs: Annotated[int, "How many trainings run at a time.", Range(1)] = 1
    seeds: Annotated[tuple[int, ...], "Only these of the study's seeds."] = ()
    arm: Annotated[
        tuple[str, ...], "Only this of the study's arms, with the control; may be repeated."
    ] = ()
    rounds: Annotated[int | None, "Number of rounds, in place of `train.rounds`.", Range(1)] = None
    set: Annotated[
        tuple[str, ...], "Override `section.key=value` of every run; may be repeated."
    ] = ()
    markdown: Annotated[
        pathlib.Path | None, "A document with the two markers, to keep the tables in."
    ] = None


def run(options: Options) -> None:
    """Trains what is not finished, and writes tables and pictures."""
    file = shipped.find(options.study)
    study = study_file.load(file)
    overrides = list(options.set)
    if options.rounds is not None:
        overrides.append(f"train.rounds={options.rounds}")
    runs = plan.runs_of(study, file.parent, options.workdir, overrides, options.seeds, options.arm)
    for config in {run.config.data.store: run.config for run in runs}.values():
        preflight.check_population(config)
    text = estimate.plan_text(
        runs,
        jobs=options.jobs,
        limit=study.budget,
        directories=plan.directories(study, options.workdir),
    )
    print(f"{study.question}\n\n{text}\n", flush=True)
    if options.plan:
        return
    quiet.import_tensorflow()
    from tff_keyboard.study.results.tables import Document
    from tff_keyboard.study.run_study import run_study

    text = run_study(
        study,
        runs,
        options.workdir,
        jobs=options.jobs,
        document=Document(options.markdown, file.stem),
        command=" ".join(["tff-keyboard", *sys.argv[1:]]),
        launcher=(sys.executable, "-m", __name__.partition(".")[0]),
        train=not options.tables,
    )
    if not text:
        raise UsageError(f"--tables: no run of the study is finished in {options.workdir}.")
    print(f"{text}\n\nTables, figures and curves: {options.workdir}")
