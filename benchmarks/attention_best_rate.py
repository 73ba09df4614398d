"""The sweeps' rules, each at the clients' rate that is best for it: the fair comparison.

At one rate for all, a rule whose steps are longer or whose weights are sharper may lose only
because that rate is the other's. So the rate is chosen for each rule, by validation and over all
seeds, and held-out people then tell the rules apart as everywhere: paired, against the control at
the rate that is best for that.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import attention_table
from benchmarks.attention_settings import CONTROL, usual

RULES = (CONTROL, "fedavg", "fedatt")  # those that are trained at all rates
_HEADS = (
    *("corpus", "rule", "client rates tried", "best on validation", "seeds"),
    *("held-out perplexity", "factor of the control's; by seed"),
)


def rows_at_best_rate(trainings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each rule that has trainings at two rates or more, JSON values, the control first.

    Args:
      trainings: Of one corpus. Only those count of which nothing but the clients' rate is changed,
        and of rates only those that have all the seeds that any rate of the rule has.

    Returns:
      Of each rule `rule`, `rates` (tried), `rate` (the one of the lowest mean log perplexity on
      validation people), `is_at_the_end` (of those tried, so that a better one may be beyond),
      `seeds`, `held_out_perplexity`, and but for the control, where both have seeds in common,
      `factor`, `factor_of_seeds` and `verdict`.
    """
    found = {rule: _by_rate(rule, trainings) for rule in RULES}
    rows = []
    control: Mapping[int, Mapping[str, Any]] = {}
    for rule, by_rate in found.items():
        if len(by_rate) < 2:
            continue
        rate = min(by_rate, key=lambda rate: _validation(by_rate[rate]))
        by_seed = by_rate[rate]
        row = {
            "rule": rule,
            "label": attention_table.label(dataclasses.asdict(usual(rule))),
            "rates": sorted(by_rate),
            "rate": rate,
            "is_at_the_end": rate in (min(by_rate), max(by_rate)),
            "seeds": sorted(by_seed),
            "held_out_perplexity": attention_table.held_out_perplexity(list(by_seed.values())),
        }
        if rule == CONTROL:
            control = by_seed
        elif both := sorted(set(by_seed) & set(control)):
            row |= attention_table.against(by_seed, control, both)
        rows.append(row)
    return rows


def markdown(corpora: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The rows of each corpus, under its name, as a table."""
    lines = []
    for name, rows in corpora.items():
        for row in rows:
            best = f"{row['rate']:g}{' (at the end)' if row['is_at_the_end'] else ''}"
            cells = [name, row["label"], ", ".join(f"{rate:g}" for rate in row["rates"]), best]
            cells.append(", ".join(map(str, row["seeds"])))
            cells.append(attention_table.interval_text(row["held_out_perplexity"], ".1f"))
            cells.append(attention_table.factor_text(row))
            lines.append(cells)
    return attention_table.table(_HEADS, lines)


def _by_rate(
    rule: str, trainings: Sequence[Mapping[str, Any]]
) -> dict[float, dict[int, Mapping[str, Any]]]:
    """Rate -> seed -> training, of rates with as many seeds as any."""
    found: dict[float, dict[int, Mapping[str, Any]]] = {}
    for each in trainings:
        setting = each["setting"]
        if setting["rule"]["name"] != rule:
            continue
        point = attention_table.point_of(setting)
        if point is not None and set(point) <= {"rate"}:
            found.setdefault(setting["rate"], {})[each["seed"]] = each
    most = max(map(len, found.values()), default=0)
    return {rate: by_seed for rate, by_seed in found.items() if len(by_seed) == most}


def _validation(by_seed: Mapping[int, Mapping[str, Any]]) -> float:
    return float(np.mean([math.log(np.nanmin(each["curve"])) for each in by_seed.values()]))
