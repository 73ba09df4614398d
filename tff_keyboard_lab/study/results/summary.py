"""What a study says: the answer to its question in a few lines, and a table for a terminal.

The answer is about the study's first metric and its last population (held-out clients, if it has
them), which are the ones that a study states before its first run.
"""

from collections.abc import Sequence

from tff_keyboard.evaluation.metrics.metric_table import METRICS, Metric
from tff_keyboard.evaluation.results.comparison import FEWEST_SEEDS
from tff_keyboard.host.text_table import aligned
from tff_keyboard_lab.study.plan.study_file import Study
from tff_keyboard_lab.study.results import tables
from tff_keyboard_lab.study.results.rows import Row

_VERDICTS = ("better", "worse", "not distinguishable")


def answer(study: Study, rows: Sequence[Row]) -> str:
    """Returns the verdicts on the first metric, a line for each.

    Rows without a verdict are named with the reason: too few seeds, or a metric for which no value
    is better.
    """
    people, metric = _population_and_metric(study)
    control = study.arm(study.control)
    lines = [
        f"{metric.label}, {tables.PEOPLE[people]}, compared with {control.label or control.name}:"
    ]
    of_verdict: dict[str, list[str]] = {verdict: [] for verdict in _VERDICTS}
    unjudged: list[str] = []
    for row in rows:
        if row.to_control is None:
            continue
        verdict = row.to_control.verdicts[people][metric.name]
        of_verdict.get(verdict, unjudged).append(row.name)
    lines += [f"  {verdict}: {', '.join(names)}" for verdict, names in of_verdict.items() if names]
    if unjudged and metric.better:
        lines.append(f"  no verdict with fewer than {FEWEST_SEEDS} seeds: {', '.join(unjudged)}")
    elif unjudged:
        lines.append(f"  no verdict, because no value of it is better: {', '.join(unjudged)}")
    if len(lines) == 1:
        lines.append("  no other arm has finished runs with its seeds yet")
    return "\n".join(lines)


def as_list(text: str) -> str:
    """Returns an answer as Markdown: its lines of verdicts as a list.

    >>> as_list("Recall:\\n  better: a\\n  worse: b")
    'Recall:\\n\\n- better: a\\n- worse: b'
    """
    head, *lines = text.splitlines()
    return "\n".join([head, "", *(f"- {line.strip()}" for line in lines)])


def table(study: Study, rows: Sequence[Row]) -> str:
    """Returns a table that fits a terminal: means over seeds, differences on the first metric."""
    people, judged = _population_and_metric(study)
    head = [f"{tables.PEOPLE[people]}, mean over seeds", "seeds"]
    head += [tables.head_of(METRICS[name]) for name in study.metrics]
    head.append(f"{judged.label}, difference")
    lines = [head]
    for row in rows:
        values = row.metrics[people]
        cells = [tables.number(values[name].value, METRICS[name]) for name in study.metrics]
        difference = (
            tables.difference_with_ends(row.to_control, people, judged)
            if row.to_control is not None
            else "control"
            if row.arm == study.control
            else "-"
        )
        lines.append([row.name, str(len(row.seeds)), *cells, difference])
    return aligned(lines)


def _population_and_metric(study: Study) -> tuple[str, Metric]:
    """Returns the population and the metric that the summary is about."""
    return study.populations[-1], METRICS[study.metrics[0]]
