"""A study's rows as Markdown tables."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

from tff_keyboard.evaluation.metrics.metric_table import METRICS, Metric
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_short
from tff_keyboard_lab.study.plan.study_file import Study
from tff_keyboard_lab.study.results.rows import Compared, Row
from tff_keyboard_lab.study.results.run_facts import PrivacyFacts, RunFacts

# Population of a study -> what tables call it.
PEOPLE = {"validation": "validation", "held_out": "held-out", "general": "general text"}


def markdown(study: Study, rows: Sequence[Row]) -> str:
    """Returns all tables: the arms, then one for each sweep that has rows.

    If runs are private, a paragraph says that their epsilon covers one run only.
    """
    of_key: dict[str, list[Row]] = {}
    for row in rows:
        of_key.setdefault(row.point.partition("=")[0], []).append(row)
    parts = [table for members in of_key.values() for table in _tables(study, members)]
    facts = [fact for row in rows for fact in row.facts.values() if fact]
    if any(fact.privacy and fact.privacy.epsilon is not None for fact in facts):
        trials = study.tuning.trials * len(study.arms) if study.tuning else 0
        of_trials = f" and {trials} trials" if trials else ""
        parts.append(
            f"Each epsilon is that of one run, as if it were the only one. The {len(facts)} runs"
            f"{of_trials} of this study read the same clients. A model that was chosen among them "
            "tells more about the clients than its own epsilon says; see docs/studies.md, "
            '"Private runs".'
        )
    return "\n\n".join(parts)


def _tables(study: Study, rows: Sequence[Row]) -> list[str]:
    ordered = sorted(rows, key=lambda row: (row.point != "", row.arm != study.control))
    if any(row.point for row in rows):
        ordered = list(rows)  # a sweep stays in the order of its values
    parts = [_table(study, ordered, people) for people in study.populations]
    if any(row.since for row in ordered):
        parts.append(_since(study, ordered))
    if any(row.step for row in ordered):
        parts.append(_steps(study, ordered))
    return [*parts, _facts(study, ordered)]


def _table(study: Study, rows: Sequence[Row], people: str) -> str:
    """Returns the table of a population: each metric, and its difference to the control."""
    head = [f"{PEOPLE[people]}, mean over seeds", "seeds"]
    for name in study.metrics:
        metric = METRICS[name]
        head += [head_of(metric), _difference_head(metric)]
    if study.worst_tenth:
        head.append(f"{METRICS[study.worst_tenth].label}, worst tenth of clients")
    if any(row.paper for row in rows):
        head.append("the paper's")
    lines = []
    for row in rows:
        cells = [row.name, ", ".join(map(str, row.seeds))]
        for name in study.metrics:
            metric = METRICS[name]
            cells.append(_interval(row.metrics[people][name], metric))
            cells.append(_difference(row.to_control, people, metric))
        if study.worst_tenth:
            cells.append(METRICS[study.worst_tenth].format(row.worst_tenths[people]))
        if "the paper's" in head:
            cells.append(row.paper)
        lines.append(cells)
    return _markdown([head, *lines])


def _since(study: Study, rows: Sequence[Row]) -> str:
    """Returns a table of the gains of the arms that started from `study.before`."""
    begun = study.arm(study.before).label or study.before
    lines = [([row.name], row.since) for row in rows if row.since]
    return _side_by_side(study, [f"since {begun}, mean over seeds; by seed"], lines)


def _steps(study: Study, rows: Sequence[Row]) -> str:
    """Returns a table that compares the arms that have `step_from` with that arm."""
    lines = []
    for row in rows:
        if row.step:
            earlier = study.arm(study.arm(row.arm).step_from)
            lines.append(([row.name, earlier.label or earlier.name], row.step))
    return _side_by_side(study, ["one step, mean over seeds; by seed", "from"], lines)


def _side_by_side(
    study: Study, heads: Sequence[str], lines: Sequence[tuple[Sequence[str], Compared]]
) -> str:
    """Returns a table of differences on the metrics of all populations.

    Each line starts with cells of its own.
    """
    head = [*heads, "seeds"]
    columns = [(people, METRICS[name]) for people in study.populations for name in study.metrics]
    for people, metric in columns:
        unit = {"percent": ", points", "perplexity": ", factor"}.get(metric.kind, "")
        head.append(f"{PEOPLE[people]}: {metric.label}{unit}")
    rows = [head]
    for cells, compared in lines:
        values = (_difference(compared, people, metric) for people, metric in columns)
        rows.append([*cells, ", ".join(map(str, compared.of_seeds)), *values])
    return _markdown(rows)


def head_of(metric: Metric) -> str:
    """Returns the heading of a column of a metric's values."""
    return f"{metric.label}, %" if metric.kind == "percent" else metric.label


def _difference_head(metric: Metric) -> str:
    if metric.is_perplexity:
        return "factor of the control's; by seed"
    return "points to the control; by seed" if metric.kind == "percent" else "to the control"


def _difference(compared: Compared | None, people: str, metric: Metric) -> str:
    """Returns a difference to the control, with its range over seeds and its verdict."""
    if compared is None:
        return "control"
    cell = difference_with_ends(compared, people, metric)
    by_seed = [each[people][metric.name].interval.value for each in compared.of_seeds.values()]
    ends = ""
    if len(by_seed) > 1:
        low, high = (number(end(by_seed), metric, signed=True) for end in (min, max))
        ends = f"; {low} .. {high}"
    return f"{cell}{ends} {compared.verdicts[people][metric.name]}".strip()


def difference_with_ends(compared: Compared, people: str, metric: Metric) -> str:
    """Returns a difference over all seeds with the ends of its interval, as points or a factor."""
    return _interval(compared.differences[people][metric.name].interval, metric, signed=True)


def _facts(study: Study, rows: Sequence[Row]) -> str:
    """Returns the table of cost and privacy: one row per arm, one column per fact of its runs."""
    of_rows = [(row.name, [fact for fact in row.facts.values() if fact]) for row in rows]
    columns = dict(_FACTS)
    for title, (name, cell) in _FACTS_OF_SOME.items():
        if any(getattr(fact, name) is not None for _, facts in of_rows for fact in facts):
            columns[title] = cell
    if study.target:
        title = f"rounds to perplexity {study.target:g}"
        columns[title] = lambda fact: str(fact.rounds_to_target or "-")
    if study.reach_share:
        control = study.arm(study.control)
        goal = f"{study.reach_share:.0%} of the {METRICS[study.reach_metric].label} of "
        goal += control.label or control.name
        columns[f"rounds to {goal}"] = lambda fact: (
            str(fact.reached.rounds) if fact.reached else "-"
        )
        columns["MB until then"] = lambda fact: (
            "-"
            if fact.reached is None or fact.reached.total_bytes is None
            else f"{fact.reached.total_bytes / 1e6:.1f}"
        )
    lines = [
        [name, *(_each([cell(fact) for fact in facts]) for cell in columns.values())]
        for name, facts in of_rows
        if facts  # a model next to the arms has none
    ]
    return _markdown([["", *columns], *lines])


def _each(words: Sequence[str]) -> str:
    """Returns one word if all seeds agree, else all words.

    >>> _each(["flat", "flat"]), _each(["1", "2"])
    ('flat', '1, 2')
    """
    return words[0] if len(set(words)) == 1 else ", ".join(words)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _in_units(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:.2f}"


def _epsilon(privacy: PrivacyFacts | None) -> str:
    if privacy is None:
        return "none"
    if privacy.epsilon is None:
        return "no claim"
    labels = f" ({'; '.join(privacy.labels)})" if privacy.labels else ""
    return f"{epsilon_in_short(privacy.epsilon)}, {privacy.delta:g}{labels}"


_Cell = Callable[[RunFacts], str]
_FACTS: Mapping[str, _Cell] = {
    "rounds": lambda fact: str(fact.rounds),
    "M tokens": lambda fact: _in_units(fact.tokens, 1e6),
    "GB sent": lambda fact: _in_units(fact.total_bytes, 1e9),
    "MB up a round": lambda fact: _in_units(fact.upload_bytes_per_round, 1e6),
    "last quarter gained": lambda fact: _percent(fact.last_quarter_gain),
    "curve": lambda fact: "flat" if fact.flat else "still falling",
}
# Title -> (optional fact, its cell). The column is shown if any run has the fact.
_FACTS_OF_SOME: Mapping[str, tuple[str, _Cell]] = {
    "adaptive rounds": ("adaptive_rounds", lambda fact: _percent(fact.adaptive_rounds)),
    "effective clients": ("effective_clients", lambda fact: _decimal(fact.effective_clients)),
    "CPU s a round": (
        "cpu_seconds_per_round",
        lambda fact: _decimal(fact.cpu_seconds_per_round),
    ),
    "epsilon, delta": ("privacy", lambda fact: _epsilon(fact.privacy)),
}


def _interval(interval: Interval, metric: Metric, *, signed: bool = False) -> str:
    ends = (interval.value, interval.low, interval.high)
    value, low, high = (number(end, metric, signed=signed) for end in ends)
    return f"{value} [{low}, {high}]"


def number(value: float, metric: Metric, *, signed: bool = False) -> str:
    """Formats a value or a difference: points for a ratio, the factor for a perplexity."""
    if not math.isfinite(value):
        return "-"
    if not signed:
        return metric.format(value)
    if metric.is_perplexity:
        return f"{value:.3f}"
    return f"{100 * value:+.2f}" if metric.kind == "percent" else f"{value:+.4f}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def replace_section(text: str, name: str, table: str) -> str:
    r"""Returns `text` with `table` between the two markers of `name`.

    >>> replace_section("a\n<!-- table: t -->\nold\n<!-- end: t -->\nb", "t", "new")
    'a\n<!-- table: t -->\n\nnew\n\n<!-- end: t -->\nb'
    """
    begin, end = f"<!-- table: {name} -->", f"<!-- end: {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"The Markdown file must have {begin} and {end}, once each.")
    return pattern.sub(lambda match: f"{begin}\n\n{table}\n\n{end}", text)
