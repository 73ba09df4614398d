"""The plots of a report, as SVG for a page.

Every function returns one `<svg>` element, with the same bytes for the same input. Matplotlib is
imported only when something is drawn.
"""

import contextlib
import io
import math
import pathlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tff_keyboard.evaluation.report.run_records import RunRecord
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.reliability import Bin
from tff_keyboard.storage import metrics_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve: TypeAlias = Callable[[RunRecord], tuple[list[int], list[float]]]

# Distinguishable with colour blindness, and dark enough on white (after Okabe and Ito).
COLOURS = ("#2f5fb3", "#d5702a", "#1a8a78", "#9a4fb5", "#6b7280", "#b3403f", "#8a6d1a", "#3a87ad")
_INK, _FAINT, _GRID = "#1f2933", "#667085", "#e4e7ec"

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _FAINT,
    "axes.edgecolor": _GRID,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "legend.frameon": False,
    "text.parse_math": False,  # a name may have a "$"
}


_NOTE: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8.5, "color": _INK}
_WHISKERS: dict[str, Any] = {"ecolor": _INK, "elinewidth": 1.2, "capsize": 3}


def style(salt: str) -> contextlib.AbstractContextManager[None]:
    """Returns the Matplotlib context for all plots. `salt` makes the names in an SVG unique."""
    import matplotlib

    return matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt})


def save_png(figure: "Figure", path: pathlib.Path) -> None:
    """Saves a picture for a document. Creates its folder; the same figure gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def colour(index: int) -> str:
    """Returns the colour of the model at `index`. Colours repeat after eight."""
    return COLOURS[index % len(COLOURS)]


def interval_bars(
    groups: Sequence[str], models: Sequence[str], values: Sequence[Sequence[Interval]]
) -> str:
    """Draws grouped bars with 95 % intervals, in percent, for values [groups][models] in [0, 1]."""
    with style("bars"):
        figure = _new_figure(9.2, 3.3)
        axes = figure.subplots()
        width = min(0.8 / len(models), 0.28)
        for row, model in enumerate(models):
            centres = np.arange(len(groups)) + (row - (len(models) - 1) / 2) * width
            heights = [100 * group[row].value for group in values]
            lows = [100 * group[row].low for group in values]
            highs = [100 * group[row].high for group in values]
            axes.bar(centres, heights, width * 0.9, color=colour(row), label=model)
            reach = np.array([np.subtract(heights, lows), np.subtract(highs, heights)])
            axes.errorbar(centres, heights, np.nan_to_num(reach), fmt="none", **_WHISKERS)
            for x, height, high in zip(centres, heights, highs, strict=True):
                if math.isfinite(height):
                    top = high if math.isfinite(high) else height
                    axes.annotate(f"{height:.1f}", (x, top), (0, 3), ha="center", **_NOTE)
        axes.set_xticks(range(len(groups)), groups)
        axes.tick_params(axis="x", length=0, labelcolor=_INK)
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("%")
        axes.margins(y=0.14)
        axes.set_ylim(bottom=0)
        if len(models) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(0, 1.16), ncols=min(4, len(models)))
        return _svg(figure)


def learning_curves(runs: Sequence[RunRecord]) -> str:
    """Draws validation recall and perplexity, training loss and uploaded bytes of each run.

    The x-axis is the number of trained tokens, so that federated and central runs can be compared.
    A single run also has its rounds on the upper edge. With a private run, which withholds its
    tokens, the x-axis is the round.
    """
    panels: list[tuple[str, Curve]] = [
        ("Top-1 recall, validation, %", lambda run: _percent(run, "evaluation/recall_at_1_no_eos")),
        ("Top-3 recall, validation, %", lambda run: _percent(run, "evaluation/recall_at_3_no_eos")),
        ("Perplexity, validation", lambda run: run.series("evaluation/perplexity")),
        ("Perplexity, general corpus", lambda run: run.series("evaluation/general/perplexity")),
        ("Training loss, nats per token", _training_loss),
        ("Uploaded by clients, GB", _uploaded),
    ]
    panels_with_data = [
        (title, curve) for title, curve in panels if any(len(curve(run)[0]) for run in runs)
    ]
    by_tokens = all(run.running_total("tokens") for run in runs)  # private runs withhold it
    with style("curves"):
        columns = min(3, len(panels_with_data))
        rows = math.ceil(len(panels_with_data) / columns)
        figure = _new_figure(9.2, 2.75 * rows)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (title, curve) in zip(grid, panels_with_data, strict=False):
            for index, run in enumerate(runs):
                rounds, values = curve(run)
                _curve(axes, run, rounds, values, colour(index), by_tokens=by_tokens)
            if by_tokens and len(runs) == 1 and curve(runs[0])[0]:
                _rounds_above(axes, runs[0])
            axes.set_title(title, fontsize=10)
            if title.startswith("Perplexity"):
                logarithmic(axes)
        for axes in grid[len(panels_with_data) :]:
            axes.set_axis_off()
        for axes in grid[max(0, len(panels_with_data) - columns) : len(panels_with_data)]:
            axes.set_xlabel("trained tokens" if by_tokens else "round")
        if len(runs) > 1:
            handles, labels = grid[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=4)
        return _svg(figure)


def per_client(
    models: Sequence[str], shares: Sequence[np.ndarray], words: np.ndarray, label: str
) -> str:
    """Draws a metric for each client, as a dot whose area is the client's number of words.

    Args:
      models: Names of the models.
      shares: Values of each model, [clients] in [0, 1]; nan for clients without a word.
      words: [clients], number of words.
      label: Label of the axis.
    """
    with style("people"):
        figure = _new_figure(9.2, 0.8 + 0.95 * len(models))
        axes = figure.subplots()
        largest = max(float(words.max(initial=1)), 1.0)
        jitter = np.random.default_rng(0).uniform(-0.28, 0.28, len(words))
        for row, share in enumerate(shares):
            typed = np.isfinite(share) & (words > 0)
            x, y = 100 * share[typed], row + jitter[typed]
            areas = 8 + 260 * words[typed] / largest
            axes.scatter(x, y, s=areas, color=colour(row), alpha=0.45, linewidths=0)
            if typed.any():
                quartiles = 100 * np.quantile(share[typed], [0.25, 0.5, 0.75])
                axes.plot(quartiles[[0, 2]], [row, row], color=_INK, linewidth=1.6)
                axes.plot(quartiles[1], row, "|", color=_INK, markersize=17, markeredgewidth=2.2)
        axes.set_yticks(range(len(models)), models)
        axes.tick_params(axis="y", length=0, labelcolor=_INK)
        axes.grid(visible=False, axis="y")
        axes.set_ylim(len(models) - 0.5, -0.5)
        axes.set_xlabel(f"{label} of each client, %")
        return _svg(figure)


def reliability(models: Sequence[str], curves: Sequence[Sequence[Bin]]) -> str:
    """Draws the probability of first suggestions against the share that is correct.

    Calibrated models are on the diagonal. The area of a dot is the number of strips in its bin.
    """
    with style("reliability"):
        figure = _new_figure(5.2, 4.2)
        axes = figure.subplots()
        axes.plot([0, 100], [0, 100], color=_FAINT, linewidth=1, linestyle=":")
        for index, (model, bins) in enumerate(zip(models, curves, strict=True)):
            claimed = [100 * point.claimed for point in bins]
            right = [100 * point.right for point in bins]
            total = sum(point.positions for point in bins)
            axes.plot(claimed, right, color=colour(index), linewidth=1.5, label=model)
            areas = [6 + 400 * point.positions / total for point in bins]
            axes.scatter(claimed, right, s=areas, color=colour(index), alpha=0.5, linewidths=0)
        axes.set_xlabel("probability of the first suggestion, %")
        axes.set_ylabel("share of correct suggestions, %")
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 100)
        if len(models) > 1:
            axes.legend(loc="upper left")
        return _svg(figure)


def epsilon_curve(
    rounds: Sequence[int], epsilons: Sequence[float], delta: float, *, projection: bool = False
) -> str:
    """Draws epsilon over rounds. With `projection` the title says so."""
    from matplotlib import ticker

    with style("epsilon"):
        figure = _new_figure(9.2, 2.4)
        axes = figure.subplots()
        axes.plot(rounds, epsilons, color=colour(0), linewidth=1.8)
        axes.set_xlabel("round")
        axes.set_ylabel("epsilon")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        note = ", a projection" if projection else ""
        axes.set_title(f"epsilon at delta = {delta:g}{note}", fontsize=10)
        axes.set_ylim(bottom=0)
        return _svg(figure)


def _curve(
    axes: "Axes",
    run: RunRecord,
    rounds: Sequence[int],
    values: Sequence[float],
    line_colour: str,
    *,
    by_tokens: bool,
) -> None:
    """Plots the values of a run by round or by trained tokens, and writes the last value."""
    from matplotlib import ticker

    if not len(rounds):
        return
    if by_tokens:
        tokens = run.running_total("tokens")
        x = [tokens.get(r, math.nan) for r in rounds]
        axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    else:
        x = [float(r) for r in rounds]
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    dots: dict[str, Any] = {"marker": "o" if len(x) < 30 else None, "markersize": 3.5}
    axes.plot(x, values, color=line_colour, linewidth=1.7, label=run.name, **dots)
    note = {**_NOTE, "color": line_colour, "va": "center"}
    axes.annotate(f"{values[-1]:.3g}", (x[-1], values[-1]), (4, 0), **note)
    axes.margins(x=0.12)


def rounds_of_tokens(
    totals: Mapping[int, float],
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns the functions from tokens to rounds and back.

    Args:
      totals: Round -> tokens up to it, both growing. A plot is a little wider than its curve, so
        the functions go on before 0 and after the last round, at the mean rate.
    """
    rounds = np.array([0, *totals], float)
    tokens = np.array([0, *totals.values()], float)
    rounds, tokens = (np.array([-x[-1], *x, 2 * x[-1]]) for x in (rounds, tokens))
    return (
        lambda x: np.interp(x, tokens, rounds),
        lambda x: np.interp(x, rounds, tokens),
    )


def _rounds_above(axes: "Axes", run: RunRecord) -> None:
    """Adds the rounds of a run on the upper edge of a plot over tokens."""
    from matplotlib import ticker

    totals = run.running_total("tokens")
    if len(totals) < 2 or not np.all(np.diff([0, *totals.values()]) > 0):
        return
    upper = axes.secondary_xaxis("top", functions=rounds_of_tokens(totals))
    upper.xaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
    upper.tick_params(labelsize=8)
    upper.set_xlabel("round", fontsize=8)


def logarithmic(axes: "Axes") -> None:
    """Makes the vertical axis logarithmic with round numbers, if its range is large enough."""
    from matplotlib import ticker

    low, high = axes.get_ylim()
    if high < 3 * low:  # too small for round numbers on a logarithmic axis
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    low, high = axes.get_ylim()
    marks = np.outer(10.0 ** np.arange(7), (1, 2, 3, 5, 7)).ravel()
    if np.any(in_range := (low <= marks) & (marks <= high)):
        axes.set_yticks(marks[in_range])


def _percent(run: RunRecord, name: str) -> tuple[list[int], list[float]]:
    rounds, values = run.series(name)
    return rounds, [100 * value for value in values]


def _training_loss(run: RunRecord) -> tuple[list[int], list[float]]:
    rows = [row for row in run.rows if row.get("client_work/train/tokens")]
    return [metrics_rows.round_of(row) for row in rows], [
        float(row["client_work/train/nll"]) / float(row["client_work/train/tokens"]) for row in rows
    ]


def _uploaded(run: RunRecord) -> tuple[list[int], list[float]]:
    totals = run.running_total("bytes_up")
    return list(totals), [total / 1e9 for total in totals.values()]


def _new_figure(width: float, height: float) -> "Figure":
    """Returns an empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _svg(figure: "Figure") -> str:
    """Converts a figure to SVG.

    Text is drawn as paths. If the font lacks a character, for example in a run with a Chinese name,
    all text is left to the browser's fonts.
    """
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.text import Text

    file = io.StringIO()
    words = "".join(text.get_text() for text in figure.findobj(Text))
    font = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    drawable = all(ord(letter) in font.get_charmap() for letter in words if letter.isprintable())
    with (
        matplotlib.rc_context({"svg.fonttype": "path" if drawable else "none"}),
        warnings.catch_warnings(),
    ):
        # If the character is missing, only its exact width is unknown.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
