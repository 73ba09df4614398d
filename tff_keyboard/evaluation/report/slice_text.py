"""Slices, clients and calibration as text: where a model is better or worse than in total."""

from collections.abc import Mapping

import numpy as np

from tff_keyboard.evaluation.counts.slices import FAMILIES
from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.report.comparison_text import (
    comparison_table,
    evaluation_table,
    first_rows,
    shown,
    signed,
)
from tff_keyboard.evaluation.results.comparison import Comparison, verdict
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics.breakdown import SLICE_METRICS, TYPISTS, Part
from tff_keyboard.evaluation.statistics.clients import DECILES, MIN_WORDS, who_counts, words_typed
from tff_keyboard.evaluation.statistics.reliability import expected_calibration_error
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference
from tff_keyboard.host.text_table import TextTable, joined

_DIFFERENCE_METRICS = ("recall_at_3_no_eos", "kss")
_TYPISTS = {"heavy": "clients who typed half of the words", "light": "other clients"}


def evaluation_text(evaluation: Evaluation, *, everything: bool) -> str:
    """Returns the output of `evaluate`: four rows, a sentence, and with `everything` all tables."""
    parts: list[str | TextTable] = [first_rows(Comparison((evaluation,)))]
    if everything:
        parts += [evaluation_table(evaluation), *slice_tables(evaluation)]
    if evaluation.general is not None:
        general = evaluation_text(evaluation.general, everything=everything)
        parts += ["General corpus:", general]
    return joined(parts)


def comparison_with_slices(comparison: Comparison) -> str:
    """Returns the table of a comparison, then clients, differences by slice, and calibration."""
    clients = clients_table(list(comparison.evaluations))
    parts: list[str | TextTable] = [
        comparison_table(comparison),
        clients,
        difference_tables(comparison),
    ]
    for evaluation in comparison.evaluations:
        parts += [f"{evaluation.model.name}:", calibration_table(evaluation)]
    return joined(parts)


def slice_tables(evaluation: Evaluation) -> list[str | TextTable]:
    """Returns a table for each family of slices, then heavy and light users, deciles, calibration.

    A model that always ends after the same number of words, or that forgets, is visible only in the
    slices by position in the message.
    """
    tables = [_parts_table(family, parts) for family, parts in evaluation.parts.items()]
    return [*tables, clients_table([evaluation]), calibration_table(evaluation)]


def _parts_table(family: str, parts: Mapping[str, Part]) -> TextTable:
    """Returns one row per slice of a family: its share of the words, and the metrics in it."""
    title = FAMILIES[family].title if family in FAMILIES else family
    rows = [[title, "words", *(METRICS[name].label for name in SLICE_METRICS)]]
    for label, part in parts.items():
        cells = [
            shown(part.intervals[name], METRICS[name].format) if name in part.intervals else "-"
            for name in SLICE_METRICS
        ]
        row_label = f"{part.clients} {_TYPISTS[label]}" if family == TYPISTS else label
        rows.append([row_label, f"{part.share:.1%}", *cells])
    return TextTable(rows)


def clients_table(evaluations: list[Evaluation]) -> TextTable:
    """Returns the mean, the deciles and the worst tenth over clients with equal weights."""
    names = [name for name in SLICE_METRICS if METRICS[name].sums <= set(evaluations[0].sums)]
    rows = [["", "mean of clients", "worst tenth", *(f"{share:.0%}" for share in DECILES)]]
    for name in names:
        metric = METRICS[name]
        for evaluation in evaluations:
            spread = evaluation.spreads[name]
            which = f", {evaluation.model.name}" if len(evaluations) > 1 else ""
            tail_cells = map(metric.format, (spread.worst_tenth, *spread.deciles))
            rows.append([f"{metric.label}{which}", shown(spread.mean, metric.format), *tail_cells])
    return TextTable(rows, above=f"{who_is_shown(evaluations[0])}:")


def who_is_shown(evaluation: Evaluation) -> str:
    """Describes the clients whose values enter the means, deciles and worst tenths."""
    counted = who_counts(evaluation.sums)
    words = words_typed(evaluation.sums)
    enough = f" with at least {MIN_WORDS} words" if words[counted].min() >= MIN_WORDS else ""
    return f"Equal weight for each of {np.count_nonzero(counted)} clients{enough}"


def calibration_table(evaluation: Evaluation) -> str | TextTable:
    """Returns the reliability of the first suggestion; "" if it was not counted."""
    bins = evaluation.reliability
    if not bins:
        return ""
    rows = [["first suggestion", "strips", "mean probability", "correct"]]
    for point in bins:
        shares = [f"{100 * share:.1f}" for share in (point.claimed, point.right)]
        rows.append([point.label, f"{point.positions:,}", *shares])
    error = expected_calibration_error(bins)
    return TextTable(rows, below=f"expected calibration error: {100 * error:.2f} points")


def difference_tables(comparison: Comparison) -> str:
    """Returns the differences of each later model to the first, slice by slice."""
    first = comparison.first
    parts: list[str | TextTable] = []
    for family in (name for name in first.parts if name != TYPISTS):
        rows = [[FAMILIES[family].title]]
        for model in comparison.names[1:]:
            rows[0] += [f"{METRICS[name].label}, {model}" for name in _DIFFERENCE_METRICS]
        for label, sums in first.slices[family].items():
            row = [label]
            for other in comparison.evaluations[1:]:
                theirs = other.slices.get(family, {}).get(label)
                row += [
                    _difference_cell(theirs, sums, name) if theirs is not None else "-"
                    for name in _DIFFERENCE_METRICS
                ]
            rows.append(row)
        parts.append(TextTable(rows))
    if not parts or len(comparison.evaluations) < 2:
        return ""
    return f"Difference to {first.model.name} by slice:\n\n{joined(parts)}"


def _difference_cell(sums: Sums, first: Sums, name: str) -> str:
    metric = METRICS[name]
    interval = metric_difference(sums, first, name)
    label = verdict(interval, better=metric.better, neutral=metric.neutral)
    return f"{shown(interval, signed(metric))} {label}".rstrip()
