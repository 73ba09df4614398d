"""What a test needs, as text for a terminal."""

import math
from collections.abc import Sequence

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.statistics.power import Design, Need
from tff_keyboard.host.text_table import aligned


def need_table(needs: Sequence[tuple[str, Need]], design: Design) -> str:
    """A row for each metric and kind ("same people", "two groups"), and the bounds of the looks."""
    rows = [["", "test", "lift", "people here", "people needed", "lift that these people show"]]
    for kind, need in needs:
        needed = f"{need.needed:,}" + (" a group" if kind == "two groups" else "")
        lift, least = (lift_text(need.metric, size) for size in (need.lift, need.least_lift))
        rows.append([METRICS[need.metric].label, kind, lift, f"{need.people:,}", needed, least])
    return f"{aligned(rows, left=2)}\n\n{_design_text(design)}"


def lift_text(metric: str, size: float) -> str:
    """A lift as people say it: points of a share, per cent of a perplexity.

    >>> lift_text("kss", 0.005), lift_text("perplexity", 0.0513)
    ('0.50 points', '5.0 %')
    """
    row = METRICS[metric]
    if row.is_perplexity:
        return f"{100 * (1 - math.exp(-size)):.1f} %"
    return f"{100 * size:.2f} points" if row.kind == "percent" else f"{size:.4f}"


def _design_text(design: Design) -> str:
    lines = [
        f"Power {design.power:.0%}, error {design.alpha:.0%} over "
        f"{design.metrics} metric{'s' if design.metrics > 1 else ''}"
        + (" (Holm: the hardest of them)." if design.metrics > 1 else ".")
    ]
    if design.looks > 1:
        bounds = ", ".join(f"{bound:.2f}" for bound in design.bounds)
        lines.append(
            f"{design.looks} looks at equal shares of the people: stop where the difference is "
            f"more standard errors than {bounds}."
        )
    lines.append("For people who type as unevenly as these.")
    return "\n".join(lines)
