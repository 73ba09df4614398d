"""A study's budget: how much its runs have used, and whether another run may begin."""

import math
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_lab.study.plan.study_file import Budget
from tff_keyboard_lab.study.results import curve, timings


class Amount(NamedTuple):
    """An amount of training."""

    hours: float
    tokens_m: float


def used_by(runs: Iterable[pathlib.Path]) -> Amount:
    """Returns the amount of all rounds that are on disk. Run directories may be missing."""
    paths = list(runs)
    return Amount(
        math.fsum(s for run in paths for s in seconds_by_round(run).values()) / 3600,
        math.fsum(t for run in paths for t in tokens_by_round(run).values()) / 1e6,
    )


def used_up(budget: Budget, used: Amount) -> list[str]:
    """Returns the keys that are used up. If there are none, another run may begin.

    >>> used_up(Budget(hours=2.0, tokens_m=5.0), Amount(2.1, 4.9))
    ['budget.hours']
    """
    return [f"budget.{key}" for key, _, limit, used in _limits(budget, used) if used >= limit]


def describe(budget: Budget, used: Amount) -> str:
    """Returns a text that says how much is used.

    >>> describe(Budget(hours=2.0, tokens_m=5.0), Amount(2.1, 4.9))
    '2.10 of 2.00 hours and 4.90 of 5.00 M tokens'
    """
    return " and ".join(
        f"{used:,.2f} of {limit:,.2f} {unit}" for _, unit, limit, used in _limits(budget, used)
    )


def compare(budget: Budget, used: Amount, to_go: Amount) -> str:
    """Returns a line that says how much is used, and whether the rest is enough.

    >>> compare(Budget(hours=2.0), Amount(0.5, 9.0), Amount(1.75, 30.0))
    'Budget: 0.50 of 2.00 hours used, 1.75 to go: 0.25 hours too few.'
    """
    parts = []
    for key, unit, limit, spent in _limits(budget, used):
        needed = getattr(to_go, key)
        short = spent + needed - limit
        verdict = f"{short:,.2f} {unit} too few" if short > 0 else "enough"
        parts.append(f"{spent:,.2f} of {limit:,.2f} {unit} used, {needed:,.2f} to go: {verdict}")
    return f"Budget: {'; '.join(parts)}."


def _limits(budget: Budget, used: Amount) -> Iterator[tuple[str, str, float, float]]:
    """Yields `(key, unit, limit, used)` of each limit."""
    for key, unit in (("hours", "hours"), ("tokens_m", "M tokens")):
        limit = getattr(budget, key)
        if limit:
            yield key, unit, limit, getattr(used, key)


def seconds_by_round(run: pathlib.Path) -> dict[int, float]:
    """Returns round -> seconds, of the rounds whose time is known."""
    return timings.by_round(run, "round_seconds")


def tokens_by_round(run: pathlib.Path) -> dict[int, float]:
    """Returns round -> tokens.

    If the metrics are damaged it is empty: those rounds are computed again.
    """
    try:
        rows = RunDirectory(run).all_rows()
    except RunDirectoryError:
        return {}
    return {metrics_rows.round_of(row): float(row.get(curve.TOKENS, 0)) for row in rows}
