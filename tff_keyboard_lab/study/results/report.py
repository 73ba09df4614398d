"""The files of a study: `study.json`, `study.md` and `curves.png` in its directory."""

import dataclasses
import datetime
import json
import pathlib
from collections.abc import Mapping, Sequence

from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.storage import environment, errors, files
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_lab import file_names
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Model, Study
from tff_keyboard_lab.study.results import (
    curve,
    picture,
    provenance,
    reach,
    rows,
    run_facts,
    summary,
    tables,
)


class Results:
    """Results of the finished runs of a study. Runs are added while the study trains."""

    def __init__(self, study: Study, runs: Sequence[Run], command: str):
        self._study = study
        self._runs = list(runs)
        self._command = command
        self._evaluations: dict[tuple[str, str], dict[int, Mapping[str, Evaluation]]] = {}
        self._facts: dict[tuple[str, str], dict[int, run_facts.RunFacts | None]] = {}
        self._progress: dict[tuple[str, str], dict[int, reach.Progress]] = {}
        arms = dict.fromkeys((run.arm, run.point) for run in runs)
        for arm, point in (*arms, *((model.name, "") for model in study.models)):
            self._evaluations[arm, point] = {}
            self._facts[arm, point] = {}
            self._progress[arm, point] = {}

    def add(self, run: Run, evaluations: Mapping[str, Evaluation]) -> None:
        """Adds a finished run."""
        self._evaluations[run.arm, run.point][run.seed] = evaluations
        self._facts[run.arm, run.point][run.seed] = run_facts.facts_of(run, self._study)
        if self._study.reach_share:
            progress = run_facts.progress_of(run, self._study)
            self._progress[run.arm, run.point][run.seed] = progress

    def add_model(self, name: str, seed: int, evaluations: Mapping[str, Evaluation]) -> None:
        """Adds a model next to the arms, which belongs to a run with this seed."""
        self._evaluations[name, ""][seed] = evaluations
        self._facts[name, ""][seed] = None

    @property
    def is_empty(self) -> bool:
        """Whether no run is finished."""
        return not any(self._evaluations.values())

    def write(self, directory: pathlib.Path) -> str:
        """Writes all three files atomically, and returns the answer and a table for a terminal."""
        table_rows = rows.rows_of(self._study, self._evaluations, self._facts_with_reach())
        answer = summary.answer(self._study, table_rows)
        files.make_directory(directory)
        content = json.dumps(self._json(table_rows), indent=1, allow_nan=False)
        files.write_atomically(directory / file_names.STUDY, [content.encode(), b"\n"])
        text = tables.markdown(self._study, table_rows)
        page = f"{self._study.question}\n\n{summary.as_list(answer)}\n\n{text}\n"
        files.write_atomically(directory / file_names.STUDY_TABLES, [page.encode()])
        picture.draw(self._study, _curves(self._runs), directory / file_names.STUDY_CURVES)
        return f"{answer}\n\n{summary.table(self._study, table_rows)}"

    def _facts_with_reach(self) -> dict[tuple[str, str], dict[int, run_facts.RunFacts | None]]:
        """Returns the facts, with `reached` of all runs whose control is finished."""
        facts = {key: dict(by_seed) for key, by_seed in self._facts.items()}
        for (arm, point), runs in self._progress.items():
            controls = self._progress.get((self._study.control, point), {})
            reached = reach.reached_by_seed(runs, controls, self._study.reach_share)
            for seed, first_reached in reached.items():
                without_reach = facts[arm, point][seed]
                assert without_reach is not None
                facts[arm, point][seed] = dataclasses.replace(without_reach, reached=first_reached)
        return facts

    def _json(self, table_rows: Sequence[rows.Row]) -> dict[str, object]:
        """Returns the content of `study.json`."""
        origins = [fact.origin for row in table_rows for fact in row.facts.values() if fact]
        return {
            "question": self._study.question,
            "control": self._study.control,
            "command": self._command,
            "trainings": provenance.summary(origins),
            "tables": {
                "date": datetime.date.today().isoformat(),
                "commit": environment.describe()["commit"],
            },
            "intervals": "95 % jackknife over clients, differences paired and over seeds",
            "rows": [self._with_origin(row) for row in table_rows],
        }

    def _with_origin(self, row: rows.Row) -> dict[str, object]:
        """Returns a row with the model or the provenance of the runs from which it comes."""
        key = row.arm, row.point
        evaluated_seeds = self._evaluations[key]
        runs = [
            run for run in self._runs if (run.arm, run.point) == key and run.seed in evaluated_seeds
        ]
        head = {"arm": row.arm, "point": row.point, "name": row.name}
        table_row = self._study.row(row.arm)
        origin = (
            {"model": table_row.model}
            if isinstance(table_row, Model)
            else dataclasses.asdict(provenance.of_row(runs))
        )
        return {**head, **origin, **row.to_json(self._study)}


def _curves(runs: Sequence[Run]) -> dict[tuple[str, str], list[curve.Curve]]:
    """Returns the curves of the runs of each (arm, point). Leaves out runs without rounds."""
    curves: dict[tuple[str, str], list[curve.Curve]] = {}
    for run in runs:
        try:
            rows_of_run = RunDirectory(run.path).all_rows()
        except errors.RunDirectoryError:
            continue
        if rows_of_run:
            curves.setdefault((run.arm, run.point), []).append(curve.of_rows(rows_of_run))
    return curves
