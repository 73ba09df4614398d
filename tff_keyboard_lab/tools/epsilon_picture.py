r"""Draws accuracy against epsilon, from the results of the study `epsilon_irc_short`.

python -m tff_keyboard_lab.tools.epsilon_picture runs/epsilon/study.json \
    --out=docs/figures/privacy_epsilon.png

The study is `configs/studies/epsilon_irc_short.toml`. Points of a mechanism at several noise levels
are joined; crosses are single seeds.
"""

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.report import charts
from tff_keyboard.storage import json_text

PANELS = ("recall_at_1_no_eos", "perplexity")
_PEOPLE = "held_out"


class Point(NamedTuple):
    """One noise level: epsilon, and a metric with its interval and its value with each seed."""

    epsilon: float
    value: float
    low: float
    high: float
    of_seeds: tuple[float, ...]


def points(rows: Sequence[Mapping[str, Any]], metric: str) -> dict[str, list[Point]]:
    """Returns mechanism -> its points, by epsilon, which is infinite for rows without privacy."""
    points_of: dict[str, list[Point]] = {}
    scale = 100 if METRICS[metric].kind == "percent" else 1
    for row in rows:
        facts = row["facts"].values()
        epsilon = max(each.get("privacy", {}).get("epsilon", float("inf")) for each in facts)
        of_row = row["metrics"][_PEOPLE][metric]
        mean, low, high = (scale * of_row[name] for name in ("value", "low", "high"))
        seeds = (scale * each[_PEOPLE][metric]["value"] for each in row["seeds"].values())
        mechanism = row["name"].split(", z = ")[0]
        points_of.setdefault(mechanism, []).append(Point(epsilon, mean, low, high, tuple(seeds)))
    return {name: sorted(of_one) for name, of_one in points_of.items()}


def draw(rows: Sequence[Mapping[str, Any]], out: pathlib.Path) -> None:
    """Writes a PNG with a panel for each of `PANELS`. Bars are 95 % intervals over clients."""
    with charts.style("epsilon"):
        figure = Figure(figsize=(10.4, 4.2), layout="constrained")
        panels = figure.subplots(1, len(PANELS))
        for axes, metric in zip(panels, PANELS, strict=True):
            for index, (name, of_one) in enumerate(points(rows, metric).items()):
                _draw_mechanism(axes, name, of_one, charts.colour(index))
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_xlabel("epsilon of the PROJECTION")
            unit = ", %" if METRICS[metric].kind == "percent" else ""
            axes.set_ylabel(f"{METRICS[metric].label} on held-out people{unit}")
        panels[-1].legend()
        charts.save_png(figure, out)


def _draw_mechanism(axes: Axes, name: str, mechanism_points: Sequence[Point], colour: str) -> None:
    """Draws the points of a mechanism with intervals, or a band for training without noise."""
    if mechanism_points[0].epsilon == float("inf"):
        (none,) = mechanism_points
        axes.axhline(none.value, color=colour, linewidth=1.4, linestyle="--", label=name)
        axes.axhspan(none.low, none.high, color=colour, alpha=0.12)
        return
    across = [each.epsilon for each in mechanism_points]
    values = [each.value for each in mechanism_points]
    below = [each.value - each.low for each in mechanism_points]
    above = [each.high - each.value for each in mechanism_points]
    axes.errorbar(
        across, values, [below, above], fmt="o-", color=colour, linewidth=1.4, capsize=3, label=name
    )
    for each in mechanism_points:
        seeds = [each.epsilon] * len(each.of_seeds)
        axes.plot(seeds, each.of_seeds, "x", color=colour, alpha=0.5, markersize=4)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draws the study named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=pathlib.Path, help="JSON file that the study wrote")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="PNG file to write")
    flags = parser.parse_args(arguments)
    draw(json_text.parse(flags.study.read_text())["rows"], flags.out)


if __name__ == "__main__":
    main()
