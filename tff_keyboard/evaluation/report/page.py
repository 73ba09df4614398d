"""One self-contained HTML page about a run or a comparison, without network access or scripts.

Plots are inline SVG (`charts.py`) and styles are in the page. A content security policy forbids
everything else, so the file can be mailed, archived or opened on a phone. `templates/page.html` is
the page; it escapes all values except the plots.
"""

import dataclasses
import json
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from tff_keyboard.data.sources.messages import PRIVATE_POPULATIONS
from tff_keyboard.evaluation.report import charts, sections
from tff_keyboard.evaluation.report.comparison_text import describe_text
from tff_keyboard.evaluation.report.example_strips import Example
from tff_keyboard.evaluation.report.run_records import RunRecord
from tff_keyboard.evaluation.report.sections import Section
from tff_keyboard.evaluation.results.comparison import Comparison

_TEMPLATES = pathlib.Path(__file__).parent / "templates"
_COUNTS = ("clients", "messages", "words")


@dataclasses.dataclass(frozen=True)
class Report:
    """The content of a page. Empty parts are left out."""

    title: str
    # Results of one or several models; None if a run was not evaluated yet
    comparison: Comparison | None
    runs: Sequence[RunRecord]
    examples: Sequence[Example] = ()
    privacy: Sequence[Section] = ()


def render(report: Report) -> str:
    """Returns the page as HTML text."""
    comparison = report.comparison
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("page.html").render(
        title=report.title,
        about=describe_text(comparison.first) if comparison else "",
        first_model=comparison.first.model.name if comparison else "",
        cards=sections.cards(comparison) if comparison else [],
        sections=_sections(report),
        runs=[_details(run) for run in report.runs],
        colour=charts.colour,
    )


def _sections(report: Report) -> list[Section]:
    """Returns the sections in the order of the page. A section without content is left out."""
    parts = list(sections.of_comparison(report.comparison)) if report.comparison else []
    if trained := [run for run in report.runs if run.rows]:
        parts.append(
            Section(
                "Learning curves",
                "Recall over all typed words; a word that is not in the vocabulary is a miss. The "
                "validation clients are different from the clients of the tables above.",
                figure=charts.learning_curves(trained),
            )
        )
    if report.examples:
        parts.append(
            Section(
                "Example suggestions",
                "For invented beginnings of messages, or for the lines of --examples. The best "
                "suggestion is first. The number is its probability over the whole vocabulary.",
                examples=report.examples,
            )
        )
    return [*parts, *report.privacy]


def counts_private_text(report: Report) -> bool:
    """Whether the page has exact counts of text on which a private run was trained."""
    texts = [one.text.name for one in report.comparison.evaluations] if report.comparison else []
    is_private = any(run.is_private for run in report.runs)
    return is_private and any(name in PRIVATE_POPULATIONS for name in texts)


def _details(run: RunRecord) -> dict[str, Any]:
    """Returns the values of a run for the template."""
    command = run.environment.get("command")
    return {
        "name": run.name,
        "command": shlex.join(map(str, command)) if isinstance(command, list) else "",
        "commit": str(run.environment.get("commit") or "")[:12],
        "config": run.config_text,
        # Exact counts and hashes of the text of private clients are not published.
        "data_card": "" if run.is_private else _json(run.data_card),
        "populations": _populations(run.data_card, is_private=run.is_private),
        "environment": _json(run.environment),
    }


def _populations(card: Mapping[str, Any], *, is_private: bool) -> dict[str, list[str]]:
    """Returns population -> counts and OOV rate as text, without those that a private run hides."""
    return {
        name: [*(f"{part[count]:,}" for count in _COUNTS), f"{part['oov_rate']:.1%}"]
        for name, part in card.get("populations", {}).items()
        if isinstance(part, Mapping)
        and all(isinstance(part.get(column), int | float) for column in (*_COUNTS, "oov_rate"))
        and not (is_private and name in PRIVATE_POPULATIONS)
    }


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) if value else ""
