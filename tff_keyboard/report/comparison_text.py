"""A comparison as aligned text and as CSV."""

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any

from tff_keyboard.evaluation.metric_labels import HEADLINES, MetricLabel

CSV_COLUMNS = (
    *("model", "metric", "value", "low", "high"),
    *("difference", "difference_low", "difference_high", "verdict"),
)


def describe_text(text: Mapping[str, Any]) -> str:
    """One line: what the models were evaluated on and what the intervals speak about."""
    if text["pseudo_users"]:
        people = f"{text['people']} blocks of lines of {text['name']} as pseudo-users"
        over = "those blocks"
    else:
        people, over = f"{text['people']} people of '{text['name']}'", "people"
    cut = f", messages cut at {text['max_length']} targets" if text["max_length"] else ""
    return (
        f"{people}, {text['words']:,} words typed{cut}; 95 % jackknife intervals over {over}. "
        "Percent unless noted."
    )


def table(comparison: Mapping[str, Any]) -> str:
    """Values of all models, then differences to the first with verdicts."""
    models = comparison["models"]
    rows = [["", *(model["name"] for model in models)]]
    for metric in HEADLINES:
        cells = [_cell(metric, model["metrics"][metric.name]) for model in models]
        rows.append([metric.label, *cells])
    times = [model["suggestion_milliseconds"] for model in models]
    rows.append(
        ["ms a suggestion, p50 / p95", *(f"{t['p50']:.2f} / {t['p95']:.2f}" for t in times)]
    )
    parts = [describe_text(comparison["text"]), "", _aligned(rows)]

    if comparison["differences"]:
        rows = [["", *(row["model"] for row in comparison["differences"])]]
        for metric in HEADLINES:
            if not metric.better:
                continue
            found = [row["metrics"].get(metric.name) for row in comparison["differences"]]
            ratio = metric.kind == "perplexity"
            cells = [
                _difference_cell(metric, row, ratio) if row else "other words" for row in found
            ]
            rows.append([metric.label + (", ratio" if ratio else ""), *cells])
        parts += ["", f"Difference to {models[0]['name']}, on the same people:", "", _aligned(rows)]
    return "\n".join(parts)


def to_csv(comparison: Mapping[str, Any]) -> str:
    """A row per model and metric: value and interval, difference to the first model and verdict."""
    differences = {row["model"]: row["metrics"] for row in comparison["differences"]}
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for model in comparison["models"]:
        for name, interval in model["metrics"].items():
            difference = differences.get(model["name"], {}).get(name, {})
            writer.writerow(
                [model["name"], name, *(interval[key] for key in ("value", "low", "high"))]
                + [difference.get(key, "") for key in ("value", "low", "high", "verdict")]
            )
    return file.getvalue()


def _cell(metric: MetricLabel, interval: Mapping[str, float | None]) -> str:
    return _shown(interval, metric.format)


def _difference_cell(metric: MetricLabel, row: Mapping[str, Any], ratio: bool) -> str:
    def signed(value: float) -> str:
        if ratio:
            return f"{value:.3f}"
        text = metric.format(value)
        return text if text.startswith("-") else f"+{text}"

    return f"{_shown(row, signed)} {row['verdict']}".rstrip()


def _shown(interval: Mapping[str, Any], form: Callable[[float], str]) -> str:
    if interval["value"] is None:
        return "-"
    if interval["low"] is None:
        return form(interval["value"])
    return f"{form(interval['value'])} [{form(interval['low'])}, {form(interval['high'])}]"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for row in rows
    )
