"""Results as text, printed by `evaluate` and `compare`, and comparisons as CSV."""

import csv
import io
import math
from collections.abc import Callable, Mapping

from tff_keyboard.evaluation.counts.positions import longest_target
from tff_keyboard.evaluation.metrics.metric_table import METRICS, Metric
from tff_keyboard.evaluation.results.comparison import Comparison, Difference
from tff_keyboard.evaluation.results.result import Evaluation, TextFacts
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.host.text_table import TextTable, joined

# The metrics that are printed first; for a comparison, the metrics that its verdict names first.
FIRST_METRICS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "kss", "perplexity")
_FIRST_DIFFERENCES = ("recall_at_3_no_eos", "recall_at_1_no_eos", "kss", "perplexity")
_SAID = {"better": "better than", "worse": "worse than"}

CSV_COLUMNS = (
    "model", "metric", "value", "low", "high", "difference", "difference_low", "difference_high",
    "verdict", "people_better_off",
)  # fmt: skip


def describe_text(evaluation: Evaluation) -> str:
    """Describes the evaluated text: its clients, the words left out, and the intervals."""
    text = evaluation.text
    if text.pseudo_users:
        clients = f"{len(text.people)} blocks of lines of {text.name} as pseudo-clients"
        over = "blocks"
    elif text.unit:
        clients, over = f"{len(text.people)} {text.unit} of '{text.name}'", text.unit
    else:
        clients, over = f"{len(text.people)} clients of '{text.name}'", "clients"
    effective = evaluation.effective_clients
    if math.isnan(effective):
        return (
            f"{clients}, but no word counts, so all values are unknown. If noise was added, it is "
            "larger than the counts: more devices must take part."
        )
    return (
        f"{clients} (effective number {effective:.1f}), {text.words:,} words typed"
        f"{_left_out(text)}. 95 % jackknife intervals over {over}. In percent, except perplexity."
    )


def _left_out(text: TextFacts) -> str:
    """Returns the clause about words after the longest length, which are not counted; or ""."""
    if text.words_left_out is None:
        return f", messages cut at {text.max_length} targets" if text.max_length else ""
    if not text.words_left_out:
        return ""
    share = text.words_left_out / (text.words + text.words_left_out)
    return (
        f"; {text.words_left_out:,} more words ({share:.1%}) after the first "
        f"{longest_target(text.max_length):,} targets of a message are not counted"
    )


def first_rows(comparison: Comparison) -> str:
    """Returns the first output of `evaluate` and `compare`: the text, four rows, and a summary."""
    models = comparison.evaluations
    about = describe_text(comparison.first)
    rows = [["", *comparison.names]] if len(models) > 1 else []
    users_metrics = [metric for metric in comparison.headlines if metric.name not in METRICS]
    for metric in (*(METRICS[name] for name in FIRST_METRICS), *users_metrics):
        rows.append([metric.label, *(_cell(model, metric) for model in models)])
    verdicts = [
        _verdict_line(model.model.name, comparison.first.model.name, differences)
        for model, differences in zip(models[1:], comparison.differences, strict=True)
    ]
    parts: list[str | TextTable] = [about, TextTable(rows)]
    if verdicts:
        if any("perplexity" not in differences for differences in comparison.differences):
            verdicts.append("Perplexities are compared only between models with the same words.")
        parts.append("\n".join(verdicts))
    elif not comparison.text.unit:  # groups of clients say nothing about the worst-served client
        parts.append(_strip_line(comparison.first))
    return joined(parts)


def _strip_line(evaluation: Evaluation) -> str:
    """Summarises the suggestion strip in two sentences."""
    recall = METRICS["recall_at_3_no_eos"]
    spread = evaluation.spreads[recall.name]
    return (
        f"The strip of three suggestions contains "
        f"{recall.format(evaluation.metrics[recall.name].value)} % of the typed words. For the "
        f"worst tenth of the clients it contains {recall.format(spread.worst_tenth)} %."
    )


def _verdict_line(name: str, first: str, differences: Mapping[str, Difference]) -> str:
    """Compares a model with the first one in a sentence that begins with the strip's recall."""
    lines: dict[str, list[str]] = {}
    for metric in (METRICS[each] for each in _FIRST_DIFFERENCES if each in differences):
        difference = differences[metric.name]
        if difference.verdict:
            unit = " points" if metric.kind == "percent" else ""
            how_much = "" if lines else f" ({shown(difference.interval, signed(metric))}{unit})"
            lines.setdefault(difference.verdict, []).append(f"{metric.label}{how_much}")
    if not lines:
        return f"{name} and {first}: too few clients for a verdict."
    parts: list[str] = []
    for verdict, labels in lines.items():
        relation = _SAID.get(verdict, f"{verdict} from")
        parts.append(f"{relation} {'it' if parts else first} in {', '.join(labels)}")
    return f"{name} is {'; '.join(parts)}."


def evaluation_table(evaluation: Evaluation) -> TextTable:
    """Returns the headline metrics over all words, over clients, and for the worst-served tenth."""
    rows = [["", "", "all words", "mean of clients", "worst tenth"]]
    for metric in evaluation.headlines:
        if metric.name not in evaluation.metrics:
            continue
        value, spread = evaluation.metrics[metric.name], evaluation.spreads[metric.name]
        worst = metric.format(spread.worst_tenth) if metric.better else ""
        cells = [shown(value, metric.format), metric.format(spread.mean.value), worst]
        rows.append([metric.label, metric.name, *cells])
    return TextTable(rows, left=2)


def comparison_table(comparison: Comparison) -> str:
    """Returns the values of all models, then the differences to the first with verdicts."""
    models = comparison.evaluations
    rows = [["", *comparison.names]]
    for metric in comparison.headlines:
        rows.append([metric.label, *(_cell(model, metric) for model in models)])
    parts: list[str | TextTable] = [TextTable(rows)]
    if comparison.differences:
        parts += [
            f"Difference to {comparison.first.model.name} on the same clients, and the share of "
            "clients for which the model is better:",
            TextTable(_difference_rows(comparison)),
        ]
    return joined(parts)


def _difference_rows(comparison: Comparison) -> list[list[str]]:
    rows = [["", *comparison.names[1:]]]
    for metric in comparison.headlines:
        if metric.better:
            cells = [
                difference_cell(metric, differences[metric.name])
                if metric.name in differences
                else ("other vocabulary" if metric.is_perplexity else "-")
                for differences in comparison.differences
            ]
            rows.append([metric.label + (", factor" if metric.is_perplexity else ""), *cells])
    return rows


def difference_cell(metric: Metric, difference: Difference) -> str:
    """Formats a difference with its interval, its verdict and the share of clients."""
    cell = f"{shown(difference.interval, signed(metric))} {difference.verdict}".rstrip()
    share = difference.better_off.value
    return cell if math.isnan(share) else f"{cell} ({share:.0%})"


def signed(metric: Metric) -> Callable[[float], str]:
    """Returns a function that formats differences of a metric: with a sign, or as a factor."""

    def form(value: float) -> str:
        if metric.is_perplexity:
            return f"{value:.3f}"
        text = metric.format(value)
        return text if text.startswith("-") else f"+{text}"

    return form


def shown(interval: Interval, form: Callable[[float], str]) -> str:
    """Formats `value [low, high]`, without ends that are unknown."""
    if math.isnan(interval.value):
        return "-"
    if math.isnan(interval.low):
        return form(interval.value)
    return f"{form(interval.value)} [{form(interval.low)}, {form(interval.high)}]"


def to_csv(comparison: Comparison) -> str:
    """Returns one row per model and metric: value, interval, difference to the first, verdict."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    pairs = zip(comparison.evaluations, [{}, *comparison.differences], strict=True)
    for model, differences in pairs:
        for name, interval in model.metrics.items():
            content = differences[name].to_json() if name in differences else {}
            keys = ("value", "low", "high", "verdict", "people_better_off")
            cells = [*interval.to_json().values(), *(content.get(key, "") for key in keys)]
            writer.writerow([model.model.name, name, *cells])
    return file.getvalue()


def _cell(model: Evaluation, metric: Metric) -> str:
    interval = model.metrics.get(metric.name)
    return shown(interval, metric.format) if interval else "-"
