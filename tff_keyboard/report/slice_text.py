"""Slices, people and calibration as text: where a model is better or worse than its total."""

from collections.abc import Mapping

import numpy as np

from tff_keyboard.evaluation.counts.slices import FAMILIES
from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.results.comparison import Comparison, verdict
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics.breakdown import SLICE_METRICS, TYPISTS, Part
from tff_keyboard.evaluation.statistics.people import DECILES, FEWEST_WORDS, who_counts, words_typed
from tff_keyboard.evaluation.statistics.reliability import expected_calibration_error
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference
from tff_keyboard.host.text_table import Table, joined
from tff_keyboard.report.comparison_text import (
    comparison_table,
    evaluation_table,
    first_rows,
    shown,
    signed,
)

_DIFFERENCE_METRICS = ("recall_at_3_no_eos", "kss")
_TYPISTS = {"heavy": "who typed half of it", "light": "all others"}


def evaluation_text(evaluation: Evaluation, *, everything: bool) -> str:
    """What `evaluate` prints: four rows and a sentence, then, if wanted, everything else."""
    parts: list[str | Table] = [first_rows(Comparison((evaluation,)))]
    if everything:
        parts += [evaluation_table(evaluation), *slice_tables(evaluation)]
    if evaluation.general is not None:
        general = evaluation_text(evaluation.general, everything=everything)
        parts += ["The general corpus:", general]
    return joined(parts)


def comparison_with_slices(comparison: Comparison) -> str:
    """The table of a comparison, then people, differences by slice and calibration."""
    people = people_table(list(comparison.evaluations))
    parts: list[str | Table] = [comparison_table(comparison), people, difference_tables(comparison)]
    for evaluation in comparison.evaluations:
        parts += [f"{evaluation.model.name}:", calibration_table(evaluation)]
    return joined(parts)


def slice_tables(evaluation: Evaluation) -> list[str | Table]:
    """A table of the slices of each family, then heavy and light typists, deciles, calibration.

    A model that has learned to end after so many words, or forgets, shows in the slices by place
    in the message and nowhere else.
    """
    tables = [_parts_table(family, parts) for family, parts in evaluation.parts.items()]
    return [*tables, people_table([evaluation]), calibration_table(evaluation)]


def _parts_table(family: str, parts: Mapping[str, Part]) -> Table:
    title = FAMILIES[family].title if family in FAMILIES else family
    rows = [[title, "words", *(METRICS[name].label for name in SLICE_METRICS)]]
    for label, part in parts.items():
        cells = [
            shown(part.intervals[name], METRICS[name].format) if name in part.intervals else "-"
            for name in SLICE_METRICS
        ]
        who = f"{part.people} {_TYPISTS[label]}" if family == TYPISTS else label
        rows.append([who, f"{part.share:.1%}", *cells])
    return Table(rows)


def people_table(evaluations: list[Evaluation]) -> Table:
    """Mean, deciles and worst tenth of people, each counting once."""
    names = [name for name in SLICE_METRICS if METRICS[name].sums <= set(evaluations[0].sums)]
    rows = [["", "mean of people", "worst tenth", *(f"{share:.0%}" for share in DECILES)]]
    for name in names:
        metric = METRICS[name]
        for evaluation in evaluations:
            found = evaluation.spreads[name]
            which = f", {evaluation.model.name}" if len(evaluations) > 1 else ""
            others = map(metric.format, (found.worst_tenth, *found.deciles))
            rows.append([f"{metric.label}{which}", shown(found.mean, metric.format), *others])
    return Table(rows, above=f"{who_is_shown(evaluations[0])}:")


def who_is_shown(evaluation: Evaluation) -> str:
    """Whose own values the means, deciles and worst tenths are of."""
    counted = who_counts(evaluation.sums)
    words = words_typed(evaluation.sums)
    enough = f" with {FEWEST_WORDS} words or more" if words[counted].min() >= FEWEST_WORDS else ""
    return f"Person by person, over the {np.count_nonzero(counted)} people{enough}"


def calibration_table(evaluation: Evaluation) -> str | Table:
    """The reliability of the first suggestion; "" where it was not counted."""
    bins = evaluation.reliability
    if not bins:
        return ""
    rows = [["first suggestion claims", "strips", "mean claim", "was right"]]
    for point in bins:
        shares = [f"{100 * share:.1f}" for share in (point.claimed, point.right)]
        rows.append([point.label, f"{point.positions:,}", *shares])
    error = expected_calibration_error(bins)
    return Table(rows, below=f"expected calibration error {100 * error:.2f} points")


def difference_tables(comparison: Comparison) -> str:
    """The differences of each later model to the first, slice by slice."""
    first = comparison.first
    parts: list[str | Table] = []
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
        parts.append(Table(rows))
    if not parts or len(comparison.evaluations) < 2:
        return ""
    return f"Difference to {first.model.name}, slice by slice:\n\n{joined(parts)}"


def _difference_cell(sums: Sums, first: Sums, name: str) -> str:
    metric = METRICS[name]
    interval = metric_difference(sums, first, name)
    said = verdict(interval, better=metric.better, neutral=metric.neutral)
    return f"{shown(interval, signed(metric))} {said}".rstrip()


def temperature_line(evaluation: Evaluation, fitted: tuple[float, Evaluation]) -> str:
    """What a temperature fitted on validation people changes for these people."""
    temperature, tempered = fitted
    before, after = (
        100 * expected_calibration_error(part.reliability) for part in (evaluation, tempered)
    )
    factor = metric_difference(tempered.sums, evaluation.sums, "perplexity")
    said = verdict(factor, better="lower", neutral=1.0)
    return (
        f"temperature {temperature:.3f}, fitted on validation people: expected calibration error "
        f"{before:.2f} -> {after:.2f} points, perplexity times {shown(factor, '{:.4f}'.format)} "
        f"{said}; the strip stays as it is"
    )
