"""Writes one HTML page about a run or a comparison. The page needs no network.

tff-keyboard report runs/sms                     curves, results of `evaluate`, privacy, config
tff-keyboard report comparison                   output of `compare`: tables, bars, strips, runs

The page shows suggestion strips for invented message beginnings, or for the lines of --examples (a
space at the end of a line asks for the next word). It never shows text of the corpus.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from tff_keyboard.command_line import predictors
from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.host import extras
from tff_keyboard.storage import files, names
from tff_keyboard.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    from tff_keyboard.evaluation.report import page
    from tff_keyboard.evaluation.report.example_strips import Example


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `report`."""

    directory: Annotated[pathlib.Path, Positional("a run directory or the folder of a comparison")]
    out: Annotated[
        pathlib.Path | None, "HTML file to write. Default: report.html in the directory."
    ] = None
    examples: Annotated[
        pathlib.Path | None, "Text file with one beginning of a message per line, for the strips."
    ] = None
    strips: Annotated[bool, "Open the models and show the suggestions of each."] = True


def run(options: Options) -> None:
    """Writes the page."""
    from tff_keyboard.evaluation.report import example_strips, page

    directory = options.directory
    out = options.out or directory / "report.html"
    beginnings: Sequence[str] = ()
    if options.examples:
        beginnings = example_strips.read_beginnings(options.examples)
    elif options.strips:
        beginnings = example_strips.BEGINNINGS
    if (directory / names.COMPARISON).is_file():
        report = _of_comparison(directory, beginnings if options.strips else ())
    else:
        report = _of_run(directory, beginnings if options.strips else ())
    files.make_directory(out.parent)
    content = page.render(report).encode("utf-8", "replace")
    # Exact counts of the clients of training are as secret as `comparison.json`.
    mode = files.OWNER_ONLY if page.counts_private_text(report) else files.ANYONE
    files.write_atomically(out, [content], mode=mode)
    print(f"Report: {out} ({out.stat().st_size / 1e3:,.0f} kB). Open it in any browser.")


def _of_comparison(directory: pathlib.Path, beginnings: Sequence[str]) -> "page.Report":
    """Returns the report of a comparison's folder, with the runs that it compares.

    `beginnings` are the texts for which the models suggest words.
    """
    from tff_keyboard.evaluation.report import page, run_privacy, run_records
    from tff_keyboard.evaluation.results.comparison import Comparison
    from tff_keyboard.evaluation.results.result import read_json

    comparison = read_json(directory / names.COMPARISON, Comparison.from_json, "compare")
    sources = [model.model.source for model in comparison.evaluations]
    runs = [run_records.read_run(p) for p in map(pathlib.Path, sources) if RunDirectory(p).exists()]
    models = comparison.names
    return page.Report(
        title=f"{models[0]} compared with {', '.join(models[1:])}" if models[1:] else models[0],
        comparison=comparison,
        runs=runs,
        examples=_strips(sources, models, comparison.text.store_path, beginnings),
        privacy=run_privacy.of_runs(runs),
    )


def _of_run(directory: pathlib.Path, beginnings: Sequence[str]) -> "page.Report":
    """Returns the report of a run, on its held-out clients or, without them, on validation."""
    from tff_keyboard.evaluation.report import page, run_privacy, run_records
    from tff_keyboard.evaluation.results.comparison import Comparison

    record = run_records.read_run(directory)
    evaluations = run_records.read_evaluations(directory)
    population = next((p for p in ("held_out", "validation") if p in evaluations), None)
    has_model = RunDirectory(directory).model.is_dir()
    return page.Report(
        title=f"Run {record.name}",
        comparison=Comparison((evaluations[population],)) if population else None,
        runs=[record],
        examples=_strips([str(directory)], [record.name], None, beginnings) if has_model else (),
        privacy=run_privacy.of_runs([record]),
    )


def _strips(
    sources: Sequence[str], models: Sequence[str], store_path: str | None, beginnings: Sequence[str]
) -> "list[Example]":
    """Returns the suggestions of each model after each beginning; [] without TensorFlow."""
    if not beginnings:
        return []
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.report.example_strips import example_strips

    store = ClientStore(store_path) if store_path else None
    try:
        opened = predictors.open_predictors(sources, store)
    except ModuleNotFoundError as error:  # a run needs TensorFlow, an export does not
        print(f"The report has no strips. {extras.what_to_install('report', error)}")
        return []
    by_name = {name: model.predictor for name, model in zip(models, opened, strict=True)}
    return example_strips(by_name, beginnings)
