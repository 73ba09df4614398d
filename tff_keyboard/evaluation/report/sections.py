"""The sections of a report, as plain values for the template.

A section has a title, some content, and a note. Plots are SVG; all other text is escaped by the
template.
"""

import dataclasses
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence

from tff_keyboard.evaluation.counts.slices import FAMILIES
from tff_keyboard.evaluation.metrics.metric_table import METRICS, Metric
from tff_keyboard.evaluation.report import charts
from tff_keyboard.evaluation.report.comparison_text import signed
from tff_keyboard.evaluation.report.example_strips import Example
from tff_keyboard.evaluation.report.slice_text import who_is_shown
from tff_keyboard.evaluation.results.comparison import Comparison, Difference
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics.breakdown import TYPISTS
from tff_keyboard.evaluation.statistics.clients import DECILES, values_of_clients, words_typed
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.reliability import expected_calibration_error

_CARDS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "kss", "perplexity")
_RECALL_BARS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "prediction_impression_recall")
_KEYSTROKE_BARS = ("kss", "kss_selection_counted", "kss_with_spaces")
_SHOWN = ("recall_at_3_no_eos", "kss")  # in the tables of slices and of clients
_TYPISTS = {"heavy": "clients who typed half of the words", "light": "other clients"}


@dataclasses.dataclass(frozen=True)
class TableCell:
    """A number with its interval and, in a comparison, its verdict."""

    value: str
    range: str = ""
    verdict: str = ""
    kind: str = ""  # "better", "worse" or "even"


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table. A row without cells is a heading over the rows below."""

    label: str
    cells: Sequence[TableCell] = ()
    meaning: str = ""


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page. Empty fields are left out."""

    title: str
    note: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Row] = ()
    by_model: bool = False  # each column is a model
    figure: str = ""  # SVG
    examples: Sequence[Example] = ()
    text: str = ""
    command: str = ""  # creates the content again


def cards(comparison: Comparison) -> list[tuple[Metric, TableCell]]:
    """Returns the headline metrics of the first model."""
    metrics = comparison.first.metrics
    intervals = [(METRICS[name], metrics[name]) for name in _CARDS if name in metrics]
    return [(metric, _cell(metric, at)) for metric, at in intervals if not math.isnan(at.value)]


def of_comparison(comparison: Comparison) -> Iterator[Section]:
    """Yields the sections about a comparison, without empty ones."""
    yield _results(comparison)
    yield from _bars(comparison)
    yield _clients(comparison)
    if any(model.slices for model in comparison.evaluations):
        yield _slices([model for model in comparison.evaluations if model.slices])
    yield _equal_weights(comparison)
    curves = {
        model.model.name: model.reliability for model in comparison.evaluations if model.reliability
    }
    if curves:
        errors = ", ".join(
            f"{name} {100 * expected_calibration_error(bins):.2f}" for name, bins in curves.items()
        )
        yield Section(
            "Calibration",
            f"Expected calibration error in points: {errors}. All next-word strips are counted. On "
            "the dotted line, the stated probability equals the share of correct suggestions.",
            figure=charts.reliability(list(curves), list(curves.values())),
        )


def _results(comparison: Comparison) -> Section:
    """Returns one row per headline metric, with the differences to the first model."""
    models = comparison.evaluations
    all_differences: list[Mapping[str, Difference]] = [{}, *comparison.differences]
    rows = [
        Row(
            metric.label,
            [
                _cell_with_difference(metric, model, differences.get(metric.name))
                for model, differences in zip(models, all_differences, strict=True)
            ],
            metric.meaning,
        )
        for metric in comparison.headlines
    ]
    note = "In percent, except perplexity and MRR. Brackets: 95 % interval."
    if len(models) > 1:
        note += (
            f" Better and worse: in comparison with {comparison.names[0]} on the same clients, the "
            "interval of the paired difference excludes zero. The last number is the share of "
            "clients for which the model is better."
        )
    command = shlex.join(_command(comparison))
    return Section("Results", note, comparison.names, rows, by_model=True, command=command)


def _command(comparison: Comparison) -> Sequence[str]:
    """Returns the command that computes the figures again, as words."""
    text = comparison.text
    sources = [model.model.source or model.model.name for model in comparison.evaluations]
    task = "compare" if len(sources) > 1 or not comparison.first.model.source else "evaluate"
    words = ["tff-keyboard", task, *sources, f"--clients={text.name}"]
    if text.store_path:
        words.append(f"--store={text.store_path}")
    return words


def _cell_with_difference(
    metric: Metric, model: Evaluation, difference: Difference | None
) -> TableCell:
    """Returns the cell of a metric, with the difference to the first model and its verdict."""
    cell = _cell(metric, model.metrics.get(metric.name))
    if difference is None or not difference.verdict:
        return cell
    kind = difference.verdict if difference.verdict in ("better", "worse") else "even"
    amount = signed(metric)(difference.interval.value).replace("-", "−")
    amount = f"×{amount}" if metric.is_perplexity else amount
    share = difference.better_off.value
    clients = "" if math.isnan(share) else f", {share:.0%} of clients"
    return dataclasses.replace(cell, verdict=f"{amount} {difference.verdict}{clients}", kind=kind)


def _bars(comparison: Comparison) -> Iterator[Section]:
    """Yields the bar charts of recall and keystrokes, with the metrics that all models have."""
    models = comparison.evaluations
    for title, names in (("Recall", _RECALL_BARS), ("Keystrokes saved", _KEYSTROKE_BARS)):
        shared_metrics = [n for n in names if all(n in model.metrics for model in models)]
        if shared_metrics:
            values = [[model.metrics[name] for model in models] for name in shared_metrics]
            labels = [METRICS[name].label for name in shared_metrics]
            yield Section(title, figure=charts.interval_bars(labels, comparison.names, values))


def _clients(comparison: Comparison) -> Section:
    """Returns the figure with one dot per client: keystrokes saved, or recall without them."""
    has_keystrokes = all("kss" in model.metrics for model in comparison.evaluations)
    name = "kss" if has_keystrokes else "recall_at_3_no_eos"
    shares = [values_of_clients(model.sums, name) for model in comparison.evaluations]
    words = words_typed(comparison.first.sums)
    dot_meaning = "block of lines" if comparison.text.pseudo_users else "client"
    return Section(
        "Differences between clients",
        f"Each dot is one {dot_meaning}; its area is proportional to the number of typed words. "
        "The bar spans the middle half, and the mark is the median. Totals weight clients by their "
        "words, the median does not.",
        figure=charts.per_client(comparison.names, shares, words, METRICS[name].label),
    )


def _slices(models: Sequence[Evaluation]) -> Section:
    """Returns one row per slice: its share of the words, and each model's metrics in it."""
    rows: list[Row] = []
    for family, parts in models[0].parts.items():
        rows.append(Row(FAMILIES[family].title if family in FAMILIES else family))
        for label, part in parts.items():
            row_label = f"{part.clients} {_TYPISTS[label]}" if family == TYPISTS else label
            cells = [TableCell(f"{part.share:.1%}")]
            for model in models:
                of_model = model.parts.get(family, {}).get(label)
                intervals = of_model.intervals if of_model else {}
                cells += [_cell(METRICS[name], intervals.get(name)) for name in _SHOWN]
            rows.append(Row(row_label, cells))
    return Section(
        "Results by slice",
        "In percent, with 95 % intervals over clients. A word that is not in the vocabulary is "
        "never suggested, so all its characters are typed.",
        ["words", *(f"{METRICS[name].label}, {m.model.name}" for m in models for name in _SHOWN)],
        rows,
    )


def _equal_weights(comparison: Comparison) -> Section:
    """Returns, for each metric, one row per model with the distribution over clients."""
    rows: list[Row] = []
    for name in _SHOWN:
        metric = METRICS[name]
        evaluations = [model for model in comparison.evaluations if name in model.metrics]
        if evaluations:
            rows.append(Row(metric.label))
        for model in evaluations:
            spread = model.spreads[name]
            tail_cells = [
                TableCell(metric.format(at)) for at in (spread.worst_tenth, *spread.deciles)
            ]
            rows.append(Row(model.model.name, [_cell(metric, spread.mean), *tail_cells]))
    return Section(
        "Results with equal weight for each client",
        f"{who_is_shown(comparison.first)}: the mean, the mean of the worst tenth, and the "
        "deciles.",
        ["mean of clients", "worst tenth", *(f"{share:.0%}" for share in DECILES)],
        rows,
    )


def _cell(metric: Metric, interval: Interval | None) -> TableCell:
    if interval is None or math.isnan(interval.value):
        return TableCell("–")
    if math.isnan(interval.low):
        return TableCell(metric.format(interval.value))
    low, high = metric.format(interval.low), metric.format(interval.high)
    return TableCell(metric.format(interval.value), f"[{low}, {high}]")
