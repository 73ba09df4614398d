"""Slices, people and calibration as text: where a model is better or worse than its total."""

import numpy as np

from tff_keyboard.evaluation.counts.calibration import expected_calibration_error, reliability
from tff_keyboard.evaluation.counts.slices import FAMILIES
from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.results.comparison import Comparison, verdict
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics import people
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import Sums, metric_difference, metric_interval
from tff_keyboard.host.text_table import aligned
from tff_keyboard.report.comparison_text import comparison_table, joined, shown, signed

SLICE_METRICS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "kss", "perplexity_words")
_DIFFERENCE_METRICS = ("recall_at_3_no_eos", "kss")


def comparison_with_slices(comparison: Comparison) -> str:
    """The table of a comparison, then people, differences by slice and calibration."""
    parts = [
        comparison_table(comparison),
        people_table(list(comparison.evaluations)),
        difference_tables(comparison),
    ]
    for evaluation in comparison.evaluations:
        parts += [f"{evaluation.model.name}:", calibration_table(evaluation)]
    return joined(parts)


def slice_tables(evaluation: Evaluation) -> str:
    """A table of the slices of each family, then heavy and light typists, deciles, calibration.

    A model that has learned to end after so many words, or forgets, shows in the slices by place
    in the message and nowhere else.
    """
    parts = [aligned(_slice_rows(evaluation, family)) for family in shown_families(evaluation)]
    return joined(
        [
            *parts,
            aligned(_typist_rows(evaluation)),
            people_table([evaluation]),
            calibration_table(evaluation),
        ]
    )


def shown_families(evaluation: Evaluation) -> list[str]:
    """Families of slices that are tables of metrics; confidence is a curve."""
    return [family for family in evaluation.slices if family != "confidence"]


def _slice_rows(evaluation: Evaluation, family: str) -> list[list[str]]:
    rows = [[FAMILIES[family].title, "words", *(METRICS[name].label for name in SLICE_METRICS)]]
    total = float(people.words_typed(evaluation.sums).sum())
    for label, sums in evaluation.slices[family].items():
        rows.append([label, f"{float(people.words_typed(sums).sum()) / total:.1%}", *_cells(sums)])
    return rows


def _cells(sums: Sums) -> list[str]:
    return [
        shown(interval, METRICS[name].format) for name, interval in slice_intervals(sums).items()
    ]


def slice_intervals(sums: Sums) -> dict[str, Interval]:
    """The metrics that slices are shown by."""
    return {name: metric_interval(sums, name) for name in SLICE_METRICS}


def _typist_rows(evaluation: Evaluation) -> list[list[str]]:
    rows = [["typists", "words", *(METRICS[name].label for name in SLICE_METRICS)]]
    sums = evaluation.sums
    total = float(people.words_typed(sums).sum())
    for name, label in (("heavy", "who typed half of it"), ("light", "all others")):
        members = people.typists(sums)[name]
        cells = [
            shown(people.group_interval(sums, metric, members), METRICS[metric].format)
            if METRICS[metric].sums <= set(sums)
            else "-"
            for metric in SLICE_METRICS
        ]
        share = float(people.words_typed(sums)[members].sum()) / total
        rows.append([f"{np.count_nonzero(members)} {label}", f"{share:.1%}", *cells])
    return rows


def people_table(evaluations: list[Evaluation]) -> str:
    """Mean, deciles and worst tenth of people, each counting once."""
    names = [name for name in SLICE_METRICS if METRICS[name].sums <= set(evaluations[0].sums)]
    rows = [["", "mean of people", "worst tenth", *(f"{share:.0%}" for share in people.DECILES)]]
    for name in names:
        metric = METRICS[name]
        for evaluation in evaluations:
            found = people.spread(evaluation.sums, name)
            which = f", {evaluation.model.name}" if len(evaluations) > 1 else ""
            rows.append(
                [
                    f"{metric.label}{which}",
                    shown(found.mean, metric.format),
                    metric.format(found.worst_tenth),
                    *map(metric.format, found.deciles),
                ]
            )
    return f"{who_is_shown(evaluations[0])}:\n{aligned(rows)}"


def who_is_shown(evaluation: Evaluation) -> str:
    """Whose own values the means, deciles and worst tenths are of."""
    counted = people.who_counts(evaluation.sums)
    words = people.words_typed(evaluation.sums)
    enough = (
        f" with {people.FEWEST_WORDS} words or more"
        if words[counted].min() >= people.FEWEST_WORDS
        else ""
    )
    return f"Person by person, over the {np.count_nonzero(counted)} people{enough}"


def calibration_table(evaluation: Evaluation) -> str:
    """The reliability of the first suggestion; "" where it was not counted."""
    bins = reliability(evaluation.slices.get("confidence", {}))
    if not bins:
        return ""
    rows = [["first suggestion claims", "strips", "mean claim", "was right"]]
    rows += [
        [
            point.label,
            f"{point.positions:,}",
            f"{100 * point.claimed:.1f}",
            f"{100 * point.right:.1f}",
        ]
        for point in bins
    ]
    error = expected_calibration_error(bins)
    return f"{aligned(rows)}\nexpected calibration error {100 * error:.2f} points"


def difference_tables(comparison: Comparison) -> str:
    """The differences of each later model to the first, slice by slice."""
    first = comparison.first
    parts = []
    for family in shown_families(first):
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
        parts.append(aligned(rows))
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
        100 * expected_calibration_error(reliability(part.slices["confidence"]))
        for part in (evaluation, tempered)
    )
    factor = metric_difference(tempered.sums, evaluation.sums, "perplexity")
    said = verdict(factor, better="lower", neutral=1.0)
    return (
        f"temperature {temperature:.3f}, fitted on validation people: expected calibration error "
        f"{before:.2f} -> {after:.2f} points, perplexity times {shown(factor, '{:.4f}'.format)} "
        f"{said}; the strip stays as it is"
    )
