"""FedAtt and its control along the paper's sweeps: a row of panels a corpus, a panel what is swept.

python -m benchmarks.sweep_picture "PersuasionForGood, by person=docs/papers/sweeps_persuasion.json"
    "WikiText-2, by article=docs/papers/sweeps_articles.json"
    "WikiText-2, IID=docs/papers/sweeps_wikitext2.json" --out=docs/papers/sweeps_by_setting.png

Reads what `attention_sweeps.py --out` wrote. Bars are 95 % intervals over held-out people. They are
of each rule by itself: where they overlap, the paired factor of the tables may still tell the rules
apart. A hollow point has fewer seeds than a claim rests on. Values are evenly spaced.
"""

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.attention_settings import CONTROL
from benchmarks.attention_table import read_rows
from tff_keyboard.evaluation.comparison import FEWEST_SEEDS
from tff_keyboard.report import charts

PANELS = {
    "share": "share of clients, C",
    "epochs": "local epochs, E",
    "epsilon": "server's step, ε",
    "rate": "client rate",
    "dim": "size",
}
RULES = {CONTROL: "FedAvg(ε)", "fedatt": "FedAtt"}
_APART = 0.09  # of two values' distance, so that bars do not hide each other


class Point(NamedTuple):
    """A value of what is swept, and the held-out perplexity with its interval."""

    at: float
    value: float
    low: float
    high: float
    seeds: int


def line(
    rows: Sequence[Mapping[str, Any]], rule: str, key: str, *, tied: bool = True
) -> list[Point]:
    """A rule's points along a sweep, by value, the usual setting among them.

    Args:
      rows: Of one corpus.
      rule: Its name.
      key: Of `PANELS`.
      tied: Whether the output table is the embedding; all else is usual.
    """
    beside = {} if tied else {"tied": False}
    found = []
    for row in rows:
        if row["setting"]["rule"]["name"] != rule or row["point"] is None:
            continue
        if {name: value for name, value in row["point"].items() if name != key} == beside:
            at = {**row["setting"], **row["setting"]["rule"]}[key]
            found.append(Point(at, **row["held_out_perplexity"], seeds=len(row["seeds"])))
    return sorted(found)


def draw(corpora: Mapping[str, Sequence[Mapping[str, Any]]], out: pathlib.Path) -> None:
    """Writes a PNG."""
    with charts.style("sweeps by setting"):
        size = (1.0 + 2.7 * len(PANELS), 0.9 + 2.6 * len(corpora))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(corpora), len(PANELS), squeeze=False, sharey="row", sharex="col")
        for of_corpus, (name, rows) in zip(grid, corpora.items(), strict=True):
            for axes, key in zip(of_corpus, PANELS, strict=True):
                _draw_panel(axes, rows, key, _values(corpora, key))
            charts.logarithmic(of_corpus[0])
            of_corpus[0].set_ylabel(f"{name}\nheld-out perplexity")
        for axes, title in zip(grid[-1], PANELS.values(), strict=True):
            axes.set_xlabel(title)
        handles = {  # the panels of the size have the most lines
            label: handle
            for axes in grid[:, -1]
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if handles:
            figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles))
        charts.save_png(figure, out)


def _values(corpora: Mapping[str, Sequence[Mapping[str, Any]]], key: str) -> list[float]:
    """That any corpus has, so that the panels below each other have the same."""
    return sorted(
        {
            point.at
            for rows in corpora.values()
            for rule in RULES
            for tied in (True, False)
            for point in line(rows, rule, key, tied=tied)
        }
    )


def _draw_panel(
    axes: Axes, rows: Sequence[Mapping[str, Any]], key: str, values: Sequence[float]
) -> None:
    for place, (rule, name) in enumerate(RULES.items()):
        _draw_line(axes, line(rows, rule, key), values, place, name, "-")
        if key == "dim":
            of_untied = line(rows, rule, key, tied=False)
            _draw_line(axes, of_untied, values, place, f"{name}, untied", ":")
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_xlim(-0.4, len(values) - 0.6)


def _draw_line(
    axes: Axes,
    found: Sequence[Point],
    values: Sequence[float],
    place: int,
    name: str,
    dashes: str,
) -> None:
    if not found:
        return
    colour = charts.colour(place)
    across = [values.index(point.at) + (place - 0.5) * _APART for point in found]
    heights = [point.value for point in found]
    below = [point.value - point.low for point in found]
    above = [point.high - point.value for point in found]
    axes.errorbar(
        across, heights, [below, above], fmt=dashes, color=colour, capsize=2.5, label=name
    )
    faces = [colour if point.seeds >= FEWEST_SEEDS else "white" for point in found]
    axes.scatter(across, heights, s=22, c=faces, edgecolors=colour, zorder=3)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draws the files named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="+", help="TITLE=JSON of attention_sweeps")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="PNG")
    flags = parser.parse_args(arguments)
    named = dict(word.split("=", 1) for word in flags.corpora)
    draw({title: read_rows(pathlib.Path(path)) for title, path in named.items()}, flags.out)


if __name__ == "__main__":
    main()
