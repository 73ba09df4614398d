r"""Draws recall on validation clients against rounds and tokens, as Hard et al. 2018, figs 3, 4.

python -m tff_keyboard_lab.tools.recall_curves "federated=runs/first+runs/second" \
    "twin=runs/irc_twin" \
    --out=docs/papers/gboard_curves.png

Runs joined by "+" are one training in parts, each of which starts from the model of the previous
one.
"""

import argparse
import pathlib
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from tff_keyboard.evaluation.report import charts
from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.run_directory import RunDirectory

RECALLS = {"top-1": "evaluation/recall_at_1_no_eos", "top-3": "evaluation/recall_at_3_no_eos"}


def points(
    rows: Sequence[metrics_rows.Row], metric: str
) -> tuple[list[int], list[float], list[float]]:
    """Returns `(rounds, tokens so far, percent)` of the rounds that were validated."""
    rounds, values = metrics_rows.series(rows, metric)
    totals = metrics_rows.running_total(rows, "tokens")
    return rounds, [totals[number] for number in rounds], [100 * value for value in values]


def in_a_row(parts: Sequence[Sequence[metrics_rows.Row]]) -> list[metrics_rows.Row]:
    """Joins the rows of one training that was run in parts, with consecutive rounds.

    >>> in_a_row([[{"round": 1}, {"round": 2}], [{"round": 1}]])
    [{'round': 1}, {'round': 2}, {'round': 3}]
    """
    joined: list[metrics_rows.Row] = []
    for rows in parts:
        before = int(joined[-1]["round"]) if joined else 0
        joined += [{**row, "round": int(row["round"]) + before} for row in rows]
    return joined


def read(runs: str) -> list[metrics_rows.Row]:
    """Returns all rows of the run directories in `runs`, which "+" joins."""
    return in_a_row([RunDirectory(path).all_rows() for path in runs.split("+")])


def draw(runs: Mapping[str, Sequence[metrics_rows.Row]], out: pathlib.Path) -> None:
    """Writes a PNG with two panels.

    Args:
      runs: Name -> rows of its metrics.
      out: Path of the picture.
    """
    with charts.style("recall"):
        figure = Figure(figsize=(9.6, 4.0), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for index, (name, rows) in enumerate(runs.items()):
            for (recall, metric), line in zip(RECALLS.items(), ("-", "--"), strict=True):
                *across, values = points(rows, metric)
                for axes, xs in zip(panels, across, strict=True):
                    colour = charts.colour(index)
                    axes.plot(
                        xs, values, line, color=colour, linewidth=1.7, label=f"{name}, {recall}"
                    )
        for axes, what in zip(panels, ("rounds", "tokens trained on"), strict=True):
            axes.set_xlabel(what)
            axes.set_ylim(bottom=0)
        panels[0].set_ylabel("recall on validation people, %")
        panels[1].xaxis.set_major_formatter(EngFormatter(sep=""))
        panels[1].legend(loc="lower right")
        charts.save_png(figure, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draws the runs named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "runs", nargs="+", help="NAME=RUN_DIRECTORY; join several runs of one curve with +"
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, help="PNG file to write")
    flags = parser.parse_args(arguments)
    runs_by_name = dict(word.split("=", 1) for word in flags.runs)
    draw({name: read(runs) for name, runs in runs_by_name.items()}, flags.out)


if __name__ == "__main__":
    main()
