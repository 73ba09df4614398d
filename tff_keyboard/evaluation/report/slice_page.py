"""Slices, clients and calibration of a comparison, as sections of the page."""

import html
import math

from tff_keyboard.evaluation.counts.slices import FAMILIES
from tff_keyboard.evaluation.metrics.metric_table import METRICS, Metric
from tff_keyboard.evaluation.report import charts
from tff_keyboard.evaluation.report.slice_text import who_is_shown
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics.breakdown import TYPISTS
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.people import DECILES
from tff_keyboard.evaluation.statistics.reliability import expected_calibration_error

Section = tuple[str, str, str]  # title, HTML, note
Row = tuple[str, list[str] | None]  # label, cells; None makes it a heading

_SHOWN = ("recall_at_3_no_eos", "kss")  # for each model
_PEOPLE = ("recall_at_3_no_eos", "kss")
_TYPISTS = {"heavy": "clients who typed half of the words", "light": "other clients"}


def sections(comparison: Comparison) -> list[Section]:
    """Returns the sections after the totals, without empty ones."""
    found = [_slices(comparison), _people(comparison), _calibration(comparison)]
    return [section for section in found if section is not None]


def _slices(comparison: Comparison) -> Section | None:
    models = [model for model in comparison.evaluations if model.slices]
    if not models:
        return None
    head = ["words", *(f"{METRICS[n].label}, {m.model.name}" for m in models for n in _SHOWN)]
    rows: list[Row] = []
    for family, parts in models[0].parts.items():
        rows.append((FAMILIES[family].title if family in FAMILIES else family, None))
        for label, part in parts.items():
            who = f"{part.people} {_TYPISTS[label]}" if family == TYPISTS else label
            rows.append((who, [f"{part.share:.1%}", *_slice_cells(models, family, label)]))
    return (
        "Results by slice",
        _table(head, rows),
        "In percent, with 95 % intervals over clients. A word that is not in the vocabulary is "
        "never suggested, so all its characters are typed.",
    )


def _slice_cells(models: list[Evaluation], family: str, label: str) -> list[str]:
    cells = []
    for model in models:
        part = model.parts.get(family, {}).get(label)
        intervals = part.intervals if part else {}
        cells += [_cell(METRICS[n], intervals[n]) if n in intervals else "–" for n in _SHOWN]
    return cells


def _people(comparison: Comparison) -> Section:
    head = ["mean of clients", "worst tenth", *(f"{share:.0%}" for share in DECILES)]
    rows: list[Row] = []
    for name in _PEOPLE:
        metric = METRICS[name]
        known = [model for model in comparison.evaluations if name in model.metrics]
        if known:
            rows.append((metric.label, None))
        for model in known:
            found = model.spreads[name]
            others = map(metric.format, (found.worst_tenth, *found.deciles))
            rows.append((model.model.name, [_cell(metric, found.mean), *others]))
    return (
        "Results with equal weight for each client",
        _table(head, rows),
        f"{who_is_shown(comparison.first)}: the mean, the mean of the worst tenth, and the "
        "deciles.",
    )


def _calibration(comparison: Comparison) -> Section | None:
    curves = {
        model.model.name: model.reliability for model in comparison.evaluations if model.reliability
    }
    if not curves:
        return None
    errors = ", ".join(
        f"{name} {100 * expected_calibration_error(bins):.2f}" for name, bins in curves.items()
    )
    return (
        "Calibration",
        f"<figure>{charts.reliability(list(curves), list(curves.values()))}</figure>",
        f"Expected calibration error in points: {errors}. All next-word strips are counted. On the "
        "dotted line, the stated probability equals the share of correct suggestions.",
    )


def _cell(metric: Metric, interval: Interval) -> str:
    if math.isnan(interval.value):
        return "–"
    if math.isnan(interval.low):
        return metric.format(interval.value)
    low, high = metric.format(interval.low), metric.format(interval.high)
    return f"{metric.format(interval.value)}<small>[{low}, {high}]</small>"


def _table(head: list[str], rows: list[Row]) -> str:
    """Returns a table. A row without cells is a heading over the rows below."""
    lines = []
    for label, cells in rows:
        scope = "row" if cells is not None else f'rowgroup" colspan="{len(head) + 1}'
        row = "".join(f"<td>{cell}</td>" for cell in cells or ())
        lines.append(f'<tr><th scope="{scope}">{html.escape(label)}</th>{row}</tr>')
    columns = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    return (
        f'<div class="scroll"><table class="slices"><thead><tr><td></td>{columns}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
