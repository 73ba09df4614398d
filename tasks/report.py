"""Writes one HTML page about a run or a comparison, readable anywhere without a network.

tff-keyboard report runs/sms                     curves, results of `evaluate`, privacy, config
tff-keyboard report comparison                   what `compare` wrote: tables, bars, strips, runs

The strips are for made-up beginnings of messages, or those of --examples, a line each (a space at
the end of a line asks for the next word): never for text of the corpus.
"""

import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from tasks import cli, predictors
from tff_keyboard import quiet
from tff_keyboard.storage import atomic_files

if TYPE_CHECKING:
    from tff_keyboard.report.example_strips import Example
    from tff_keyboard.report.page import Privacy
    from tff_keyboard.report.run_records import RunRecord

FLAGS = flags.FlagValues()  # of this task alone
_OUT = flags.DEFINE_string(
    "out", None, "HTML file; report.html in the directory if left out.", flag_values=FLAGS
)
_EXAMPLES = flags.DEFINE_string(
    "examples", None, "Text file with beginnings of messages for the strips.", flag_values=FLAGS
)
_STRIPS = flags.DEFINE_bool(
    "strips", True, "Open the models and show what each suggests.", flag_values=FLAGS
)

_LEDGER_POINTS = 12  # of the epsilon curve: tree accounting takes a second each


def run(
    directory: pathlib.Path,
    *,
    out: pathlib.Path | None = None,
    examples_path: str | None = None,
    strips: bool = True,
) -> pathlib.Path:
    """Writes the page.

    Args:
      directory: A run directory, or the folder of a comparison.
      out: The file; `directory`/report.html when None.
      examples_path: Beginnings of messages for the strips.
      strips: Whether the models are opened for them.

    Returns:
      The file.
    """
    quiet.import_tensorflow()
    from tff_keyboard.report import example_strips, page

    out = out or directory / "report.html"
    if examples_path:
        beginnings = tuple(example_strips.read_beginnings(examples_path))
    else:
        beginnings = example_strips.BEGINNINGS
    if (directory / "comparison.json").is_file():
        report = _of_comparison(directory, beginnings if strips else ())
    else:
        report = _of_run(directory, beginnings if strips else ())
    atomic_files.make_directory(out.parent)
    atomic_files.write_atomically(out, [page.render(report).encode()])
    print(f"Report: {out} ({out.stat().st_size / 1e3:,.0f} kB; open it in any browser)")
    return out


def _of_comparison(directory: pathlib.Path, beginnings: Sequence[str]):
    import json

    from tff_keyboard.data.errors import DataError
    from tff_keyboard.evaluation import comparison as comparisons
    from tff_keyboard.report import page, run_records

    path = directory / "comparison.json"
    try:
        comparison = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        comparison = {}
    if comparison.get("format") != comparisons.FORMAT:
        raise DataError(f"{path}: is no comparison of this version. Run `compare` again.")
    sources = [pathlib.Path(model["details"]["source"]) for model in comparison["models"]]
    runs = [run_records.read_run(source) for source in sources if _is_run(source)]
    names = [model["name"] for model in comparison["models"]]
    return page.Report(
        title=f"{names[0]}, next to {', '.join(names[1:])}" if names[1:] else names[0],
        comparison=comparison,
        runs=runs,
        examples=_strips(
            [str(source) for source in sources], names, comparison["text"]["store_path"], beginnings
        ),
        privacy=_privacy(runs),
    )


def _of_run(directory: pathlib.Path, beginnings: Sequence[str]):
    from tff_keyboard.report import page, run_records

    record = run_records.read_run(directory)
    evaluations = run_records.read_evaluations(directory)
    population = next((p for p in ("held_out", "validation") if p in evaluations), None)
    has_model = (directory / "model").is_dir()
    return page.Report(
        title=f"Run {record.name}",
        comparison=_as_comparison(record.name, evaluations[population]) if population else None,
        runs=[record],
        examples=_strips([str(directory)], [record.name], None, beginnings) if has_model else (),
        privacy=_privacy([record]),
    )


def _as_comparison(name: str, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the task `evaluate` in the form of a comparison of one model."""
    import math

    def plain(value: float | None) -> float | None:
        return None if value is None or math.isnan(value) else value

    sums = evaluation["sums"]
    words = sum(sums["tokens"]) - sum(sums["eos_tokens"])
    return {
        "text": {
            "name": evaluation["population"],
            "people": evaluation["num_clients"],
            "words": int(words),
            "pseudo_users": False,
            "max_length": 0,
        },
        "models": [
            {
                "name": name,
                "sums": sums,
                "metrics": {
                    metric: {key: plain(value) for key, value in interval.items()}
                    for metric, interval in evaluation["metrics"].items()
                },
            }
        ],
        "differences": [],
    }


def _strips(
    sources: Sequence[str], names: Sequence[str], store_path: str | None, beginnings: Sequence[str]
) -> "list[Example]":
    if not beginnings:
        return []
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.report.example_strips import example_strips

    store = ClientStore(store_path) if store_path else None
    opened = predictors.open_predictors(sources, store)
    by_name = {name: named.predictor for name, named in zip(names, opened, strict=True)}
    return example_strips(by_name, beginnings)


def _privacy(runs: "Sequence[RunRecord]") -> "list[Privacy]":
    from tff_keyboard.privacy.ledger import read_ledger
    from tff_keyboard.privacy.statement import guarantee_of, privacy_statement
    from tff_keyboard.report import charts, page

    found = []
    for record in runs:
        if record.ledger_path is None:
            continue
        header, rounds = read_ledger(record.ledger_path)
        marks = sorted(
            {max(1, len(rounds) * i // _LEDGER_POINTS) for i in range(_LEDGER_POINTS + 1)}
        )
        curve = ""
        if header.noise_multiplier > 0 and len(rounds) > 1:
            epsilons = [guarantee_of(header, mark).epsilon for mark in marks]
            curve = charts.epsilon_curve(marks, epsilons, header.delta)
        found.append(page.Privacy(record.name, privacy_statement(record.ledger_path), curve))
    return found


def _is_run(path: pathlib.Path) -> bool:
    return (path / "config.toml").is_file()


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    run(
        pathlib.Path(cli.one_argument(argv, "a run directory or the folder of a comparison")),
        out=pathlib.Path(_OUT.value) if _OUT.value else None,
        examples_path=_EXAMPLES.value,
        strips=_STRIPS.value,
    )


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
