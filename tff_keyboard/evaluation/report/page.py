"""One self-contained HTML page about a run or a comparison, without network access or scripts.

Plots are inline SVG (`charts.py`) and styles are in the page. A content security policy forbids
everything else, so the file can be mailed, archived or opened on a phone.
"""

import dataclasses
import html
import json
import math
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.evaluation.metrics.metric_table import HEADLINES, METRICS, Metric
from tff_keyboard.evaluation.report import charts, slice_page
from tff_keyboard.evaluation.report.comparison_text import describe_text, signed
from tff_keyboard.evaluation.report.example_strips import Example
from tff_keyboard.evaluation.report.run_records import RunRecord
from tff_keyboard.evaluation.results.comparison import Comparison, Difference
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.people import values_of_people, words_typed

_CARDS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "kss", "perplexity")
_RECALL_BARS = ("recall_at_1_no_eos", "recall_at_3_no_eos", "prediction_impression_recall")
_KEYSTROKE_BARS = ("kss", "kss_selection_counted", "kss_with_spaces")


@dataclasses.dataclass(frozen=True)
class Privacy:
    """The content of a run's privacy ledger, for the page."""

    run: str
    statement: str  # the statement as text
    curve: str  # epsilon over rounds, as SVG; "" if there is nothing to draw


@dataclasses.dataclass(frozen=True)
class Report:
    """The content of a page. Empty parts are left out."""

    title: str
    # Results of one or several models; None if a run was not evaluated yet
    comparison: Comparison | None
    runs: Sequence[RunRecord]
    examples: Sequence[Example] = ()
    privacy: Sequence[Privacy] = ()


def render(report: Report) -> str:
    """Returns the page as HTML text."""
    sections = [_header(report)]
    if report.comparison:
        sections += [part(report.comparison) for part in (_cards, _table, _bars, _people)]
        sections += [_section(*part) for part in slice_page.sections(report.comparison)]
    if any(run.rows for run in report.runs):
        trained = [run for run in report.runs if run.rows]
        curves = _figure(charts.learning_curves(trained))
        sections.append(_section("Learning curves", curves, _CURVES_NOTE))
    if report.examples:
        sections.append(_examples(report.examples))
    sections += [_privacy(privacy) for privacy in report.privacy]
    sections += [_run_details(run) for run in report.runs]
    body = "\n".join(part for part in sections if part)
    style = pathlib.Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{_text(report.title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


_CURVES_NOTE = (
    "Recall over all typed words; a word that is not in the vocabulary is a miss. The validation "
    "clients are different from the clients of the tables above."
)


def _header(report: Report) -> str:
    about = ""
    if report.comparison:
        about = f"<p>{_text(describe_text(report.comparison.first))}</p>"
    return f"<header><h1>{_text(report.title)}</h1>{about}</header>"


def _cards(comparison: Comparison) -> str:
    model = comparison.first
    cards = []
    for name in _CARDS:
        interval = model.metrics.get(name)
        if interval is None or math.isnan(interval.value):
            continue
        metric = METRICS[name]
        unit = "<small>%</small>" if metric.kind == "percent" else ""
        cards.append(
            f'<div class="card"><span class="name">{_text(metric.label)}</span>'
            f'<span class="figure">{metric.format(interval.value)}{unit}</span>'
            f'<span class="range">{_range(metric, interval)}</span></div>'
        )
    name = _text(model.model.name)
    swatch = f'<i style="background:{charts.colour(0)}"></i>'
    return f'<p class="of">{swatch}{name}</p><section class="cards">{"".join(cards)}</section>'


def _table(comparison: Comparison) -> str:
    models = comparison.evaluations
    head = "".join(
        f'<th scope="col"><i style="background:{charts.colour(i)}"></i>{_text(name)}</th>'
        for i, name in enumerate(comparison.names)
    )
    rows = []
    for metric in HEADLINES:
        if not any(metric.name in model.metrics for model in models):
            continue
        cells = [
            _table_cell(metric, model, found.get(metric.name))
            for model, found in zip(models, [{}, *comparison.differences], strict=True)
        ]
        rows.append(
            f'<tr><th scope="row">{_text(metric.label)}<small>{_text(metric.meaning)}</small></th>'
            f"{''.join(cells)}</tr>"
        )
    note = "In percent, except perplexity and MRR. Brackets: 95 % interval."
    if len(models) > 1:
        note += (
            f" Better and worse: in comparison with {comparison.names[0]} on the same clients, the "
            "interval of the paired difference excludes zero. The last number is the share of "
            "clients for which the model is better."
        )
    return _section(
        "Results",
        f'<div class="scroll"><table><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{_made_by(_command(comparison))}",
        note,
    )


def _command(comparison: Comparison) -> Sequence[str]:
    """Returns the command that computes the figures again, as words."""
    text = comparison.text
    sources = [model.model.source or model.model.name for model in comparison.evaluations]
    task = "compare" if len(sources) > 1 or not comparison.first.model.source else "evaluate"
    words = ["tff-keyboard", task, *sources, f"--clients={text.name}"]
    if text.store_path:
        words.append(f"--store={text.store_path}")
    if text.max_length:
        words.append(f"--max-length={text.max_length}")
    return words


def _made_by(words: Sequence[str], commit: str = "") -> str:
    """Returns a line with the command that created the section above it."""
    at = f" at commit {_text(commit[:12])}" if commit else ""
    command = _text(shlex.join(words))
    return f'<p class="made">Created with <code>{command}</code>{at}.</p>'


def _table_cell(metric: Metric, model: Evaluation, found: Difference | None) -> str:
    interval = model.metrics.get(metric.name)
    if interval is None or math.isnan(interval.value):
        return "<td>–</td>"
    cell = f"<b>{metric.format(interval.value)}</b><small>{_range(metric, interval)}</small>"
    if found is not None and found.verdict:
        kind = {"better": "better", "worse": "worse"}.get(found.verdict, "even")
        amount = signed(metric)(found.interval.value).replace("-", "−")
        amount = f"×{amount}" if metric.is_perplexity else amount
        share = found.better_off.value
        people = "" if math.isnan(share) else f", {share:.0%} of clients"
        cell += f'<span class="verdict {kind}">{amount} {_text(found.verdict)}{people}</span>'
    return f"<td>{cell}</td>"


def _bars(comparison: Comparison) -> str:
    models = comparison.evaluations
    parts = []
    for title, names in (("Recall", _RECALL_BARS), ("Keystrokes saved", _KEYSTROKE_BARS)):
        known = [n for n in names if all(n in model.metrics for model in models)]
        if known:
            values = [[model.metrics[name] for model in models] for name in known]
            labels = [METRICS[name].label for name in known]
            chart = charts.interval_bars(labels, comparison.names, values)
            parts.append(_section(title, _figure(chart)))
    return "".join(parts)


def _people(comparison: Comparison) -> str:
    everywhere = all("kss" in model.metrics for model in comparison.evaluations)
    name = "kss" if everywhere else "recall_at_3_no_eos"
    shares = [values_of_people(model.sums, name) for model in comparison.evaluations]
    words = words_typed(comparison.first.sums)
    chart = charts.per_person(comparison.names, shares, words, METRICS[name].label)
    who = "block of lines" if comparison.text.pseudo_users else "client"
    return _section(
        "Differences between clients",
        _figure(chart),
        f"Each dot is one {who}; its area is proportional to the number of typed words. The bar "
        "spans the middle half, and the mark is the median. Totals weight clients by their words, "
        "the median does not.",
    )


def _examples(examples: Sequence[Example]) -> str:
    blocks = []
    for example in examples:
        rows = []
        for index, (name, strip) in enumerate(example.strips.items()):
            slots = "".join(
                f'<span class="slot">{_text(word)}<small>{100 * probability:.1f} %</small></span>'
                for word, probability in strip
            )
            slots = slots or '<span class="slot none">no suggestion</span>'
            rows.append(
                f'<div class="strip"><i style="background:{charts.colour(index)}"></i>'
                f'<span class="model">{_text(name)}</span>{slots}</div>'
            )
        typed = _text(example.typed) or '<span class="empty">(nothing typed)</span>'
        blocks.append(
            f'<div class="example"><p class="typed">{typed}<span class="caret"></span></p>'
            f"{''.join(rows)}</div>"
        )
    return _section(
        "Example suggestions",
        f'<div class="examples">{"".join(blocks)}</div>',
        "For invented beginnings of messages, or for the lines of --examples. The best suggestion "
        "is first. The number is its probability over the whole vocabulary.",
    )


def _privacy(privacy: Privacy) -> str:
    content = _figure(privacy.curve) if privacy.curve else ""
    return _section(f"Privacy of {privacy.run}", f"{content}<pre>{_text(privacy.statement)}</pre>")


def _run_details(run: RunRecord) -> str:
    parts = [f"<details><summary>Config</summary><pre>{_text(run.config_text)}</pre></details>"]
    if run.data_card:
        parts.append(
            f"<details><summary>Data card</summary>{_populations(run.data_card)}"
            f"<pre>{_json(run.data_card)}</pre></details>"
        )
    if run.environment:
        parts.append(
            f"<details><summary>Environment</summary><pre>{_json(run.environment)}</pre></details>"
        )
    command = run.environment.get("command")
    made = ""
    if isinstance(command, list) and command:
        made = _made_by(list(map(str, command)), str(run.environment.get("commit") or ""))
    return _section(f"Run {run.name}", made + "".join(parts))


def _populations(card: Mapping[str, Any]) -> str:
    columns = ("clients", "messages", "words")
    rows = [
        f'<tr><th scope="row">{_text(name)}</th>'
        + "".join(f"<td>{part[column]:,}</td>" for column in columns)
        + f"<td>{part['oov_rate']:.1%}</td></tr>"
        for name, part in card.get("populations", {}).items()
        if all(column in part for column in (*columns, "oov_rate"))
    ]
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{c}</th>' for c in (*columns, "out of vocabulary"))
    return f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _section(title: str, content: str, note: str = "") -> str:
    note = f'<p class="note">{_text(note)}</p>' if note else ""
    return f"<section><h2>{_text(title)}</h2>{content}{note}</section>"


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def _range(metric: Metric, interval: Interval) -> str:
    if math.isnan(interval.low):
        return ""
    return f"[{metric.format(interval.low)}, {metric.format(interval.high)}]"


def _text(value: str) -> str:
    return html.escape(str(value), quote=True)


def _json(value: Any) -> str:
    return _text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))
