"""A chart of what the nodes of a cluster did in a round: a row per node, a bar per part.

The round is the one whose length is the median, so that neither the first, which compiles, nor one
with a loss is taken for the rule.
"""

import csv
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tff_keyboard.report import canvas, charts

_OUTCOMES = ("done", "late", "lost", "failed")


class PartTime(NamedTuple):
    """A row of `node_timings.csv`: who computed which item when, in seconds since the epoch."""

    round_num: int
    node: str
    item: int
    start: float
    end: float
    outcome: str


def read_times(path: pathlib.Path) -> list[PartTime]:
    """The rows of a run's file; none where there is no file. A cut last line counts for nothing."""
    if not path.is_file():
        return []
    found = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                times = float(row["start"]), float(row["end"])
                numbers = int(row["round"]), row["node"], int(row["item"])
            except (TypeError, ValueError, KeyError):
                continue
            if row["outcome"] in _OUTCOMES:
                found.append(PartTime(*numbers, *times, row["outcome"]))
    return found


def median_round(times: Sequence[PartTime]) -> list[PartTime]:
    """The times of the round of median length."""
    rounds: dict[int, list[PartTime]] = {}
    for time in times:
        rounds.setdefault(time.round_num, []).append(time)
    lengths = {
        number: max(t.end for t in parts) - min(t.start for t in parts)
        for number, parts in rounds.items()
    }
    order = sorted(lengths, key=lambda number: lengths[number])
    return rounds[order[(len(order) - 1) // 2]]


@canvas.of_a_page
def round_picture(times: Sequence[PartTime]) -> str:
    """A round as an `<svg>` element; time runs from the first part on, in seconds."""
    nodes = sorted({time.node for time in times})
    begin = min(time.start for time in times)
    with charts.style("nodes"):
        figure = canvas.new_figure(9.2, 1.1 + 0.42 * len(nodes))
        axes = figure.subplots()
        for place, outcome in enumerate(_OUTCOMES):
            shown = [time for time in times if time.outcome == outcome]
            if not shown:
                continue
            rows = [nodes.index(time.node) for time in shown]
            starts, ends = np.array([(time.start, time.end) for time in shown]).T
            look: dict[str, Any] = {"edgecolor": "white", "linewidth": 1.0, "label": outcome}
            lengths, left = ends - starts, starts - begin
            axes.barh(rows, lengths, 0.7, left, color=charts.colour(place), **look)
        axes.set_yticks(range(len(nodes)), nodes)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(f"seconds of round {times[0].round_num}")
        axes.legend(loc="upper right", bbox_to_anchor=(1, 1.25), ncols=len(_OUTCOMES))
        return canvas.svg(figure)
