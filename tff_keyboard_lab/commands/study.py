"""Trains the runs of a study, several arms with several seeds, and writes its tables and figures.

tff-keyboard study ablation_irc --workdir=runs/ablation --plan
tff-keyboard study my/study.toml --workdir=runs/mine [--jobs=2]

A study is a TOML file with a question, arms (each a config), a control, seeds, and sweeps of a key.
A study in configs/studies can be given by its name. --plan prints the number of runs, tokens and
hours, and trains nothing. --tables evaluates the finished runs, and trains nothing. --seeds and
--arm train a part of the study.

Every run is a run directory in WORKDIR. Finished runs are skipped; after an interruption, run the
same command again. All arms train with the first seed before any arm trains with the second. After
each run, WORKDIR/study.json, study.md and curves.png are written. With --set=execution.engine=ray
each of the --jobs trainings uses one node of a cluster.

If the file has a table [tuning], the trials of all arms are trained first, in WORKDIR/trials. Each
arm takes its best trial on validation clients, and WORKDIR/tuning.json has all of them.

No further run starts when the [budget] of the file is used up; the exit code is then 4, as it is
when a run fails. Only one study at a time can train in a WORKDIR.

An arm is "better" or "worse" only if it has at least three seeds, if its interval over clients and
seeds lies on one side of the control, and if the difference of every single seed does too.
"""

import contextlib
import dataclasses
import pathlib
import sys
from typing import Annotated

from absl import flags

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.training import preflight
from tff_keyboard_lab import file_names
from tff_keyboard_lab.study.plan import plan, shipped, study_file
from tff_keyboard_lab.study.runs import estimate
from tff_keyboard_lab.study.runs.fork_server import ForkServer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `study`."""

    resumes = True

    study: Annotated[pathlib.Path, Positional("a study: its TOML file or its name")]
    workdir: Annotated[pathlib.Path, "Folder of the runs. Existing ones are resumed."]
    plan: Annotated[bool, "Print the cost of the study and stop. Its client stores must exist."] = (
        False
    )
    tables: Annotated[bool, "Train nothing. Write tables and figures of the finished runs."] = False
    jobs: Annotated[
        int, "Number of trainings that run at the same time.", flags.IntegerParser(1)
    ] = 1
    seeds: Annotated[tuple[int, ...], "Train only these seeds of the study."] = ()
    arm: Annotated[tuple[str, ...], "Train only this arm and the control. Repeatable."] = ()
    set: Annotated[
        tuple[str, ...], "Override a key of every config: `section.key=value`. Repeatable."
    ] = ()


def run(options: Options) -> None:
    """Trains the unfinished runs, and writes tables and figures."""
    file = shipped.find(options.study)
    study = study_file.load(file)
    where = file.parent, options.workdir, options.set
    trials = plan.trials_of(study, *where, options.arm)
    # The best trial of each arm is not known yet. The first one stands for it in the estimate.
    untuned = plan.with_trials(study, {run.arm: 0 for run in trials})
    runs = plan.runs_of(untuned, *where, options.seeds, options.arm)
    for config in {run.config.data.store: run.config for run in runs}.values():
        preflight.check_population(config.data.store, config.train, config.aggregation.rule)
        preflight.check_defence(config.train, config.aggregation.rule)
    text = estimate.plan_text(
        [*trials, *runs],
        jobs=options.jobs,
        limit=study.budget,
        directories=plan.directories(study, options.workdir),
    )
    print(f"{study.question}\n\n{text}\n", flush=True)
    if options.plan:
        return
    quiet.import_tensorflow()
    from tff_keyboard_lab.study.run_study import run_study, tune

    with contextlib.closing(ForkServer()) as server:
        if trials:
            chosen = tune(
                study,
                trials,
                options.workdir,
                jobs=options.jobs,
                start=server.start,
                train=not options.tables,
            )
            study = plan.with_trials(study, chosen)
            runs = plan.runs_of(study, *where, options.seeds, options.arm)
        text = run_study(
            study,
            runs,
            options.workdir,
            jobs=options.jobs,
            command=" ".join(["tff-keyboard", *sys.argv[1:]]),
            start=server.start,
            train=not options.tables,
        )
    if not text:
        raise UsageError(f"--tables: {options.workdir} has no finished run of this study.")
    print(f"{study.question}\n{text}\n")
    print(f"All tables, with each seed: {options.workdir / file_names.STUDY_TABLES}")
    print(f"Figures and curves: {options.workdir}")
