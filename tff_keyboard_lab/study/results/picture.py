"""The learning curves of a study: validation perplexity against tokens, one line for each arm.

A line is the geometric mean of the seeds at the rounds that all of them validated; the band is
their range. Each value of a sweep has its own panel. The model of `before` is not shown, because it
is validated on other text.
"""

import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from tff_keyboard.evaluation.report import charts
from tff_keyboard_lab.study.plan.study_file import Study
from tff_keyboard_lab.study.results.curve import Curve

Curves = Mapping[tuple[str, str], Sequence[Curve]]  # (arm, point) -> one a seed

_COLUMNS = 3
_DASHES = ("-", "--", ":")


def draw(study: Study, curves: Curves, path: pathlib.Path) -> None:
    """Writes a PNG, if any run has validated."""
    mean_curves = {
        key: _mean(mean_curve) for key, mean_curve in curves.items() if key[0] != study.before
    }
    mean_curves = {key: mean_curve for key, mean_curve in mean_curves.items() if len(mean_curve[0])}
    points = list(dict.fromkeys(point for _, point in mean_curves))
    if not points:
        return
    columns = min(_COLUMNS, len(points))
    rows = math.ceil(len(points) / columns)
    with charts.style("study"):
        width = 2.2 + 4.4 * columns
        figure = Figure(figsize=(width, 3.6 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes, point in zip(panels, points, strict=False):
            _panel(axes, study, point, mean_curves)
        for axes in panels[len(points) :]:
            axes.set_axis_off()
        handles, labels = [], []
        for axes in panels:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                if label not in labels:
                    handles.append(handle)
                    labels.append(label)
        above = _legend(figure, handles, labels)
        figure.set_size_inches(width, 3.6 * rows + above)
        charts.save_png(figure, path)


def _legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> float:
    """Draws a legend with as many columns as fit, and returns its height in inches."""
    for columns in range(len(labels), 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper left", ncols=columns)
        box = legend.get_window_extent()
        if columns == 1 or box.width < 0.98 * figure.bbox.width:
            break
        legend.remove()
    return float(box.height / figure.dpi)


def _panel(
    axes: Axes, study: Study, point: str, mean_curves: Mapping[tuple[str, str], tuple]
) -> None:
    """Plots the arms at one point of a sweep: the mean over seeds, and the range between them."""
    for index, arm in enumerate(study.arms):
        if (arm.name, point) not in mean_curves:
            continue
        tokens, mean, low, high = mean_curves[arm.name, point]
        colour = charts.colour(index)
        dashes = _DASHES[index // len(charts.COLOURS) % len(_DASHES)]  # where colours repeat
        label, marker = arm.label or arm.name, "o" if len(tokens) == 1 else ""
        axes.plot(
            tokens, mean, color=colour, linestyle=dashes, linewidth=1.7, marker=marker, label=label
        )
        if np.any(high > low):
            axes.fill_between(tokens, low, high, color=colour, alpha=0.18, linewidth=0)
    if study.target:
        axes.axhline(study.target, color="#667085", linewidth=0.8, linestyle="--")
    axes.set_title(point or "Perplexity, validation clients", fontsize=10)
    axes.set_xlabel("trained tokens")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    charts.logarithmic(axes)


def _mean(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns `(tokens, mean, low, high)` at the rounds that all seeds have."""
    common = sorted(set.intersection(*(set(curve.rounds) for curve in curves)))
    if not common:
        nothing = np.zeros(0)
        return nothing, nothing, nothing, nothing
    places = [np.searchsorted(curve.rounds, common) for curve in curves]
    tokens, values = (
        np.array([np.array(column)[at] for column, at in zip(columns, places, strict=True)])
        for columns in ([c.tokens for c in curves], [c.perplexities for c in curves])
    )
    mean = np.exp(np.log(values).mean(axis=0))
    return tokens.mean(axis=0), mean, values.min(axis=0), values.max(axis=0)
