"""What an attack did to a rule: recall and perplexity beside the clean run, with a verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.evaluation.result import Evaluation
from tff_keyboard.evaluation.sums import metric_difference

TOLERANCE = 0.01  # of top-1 recall: one point
METRIC = "recall_at_1_no_eos"
SECOND_METRIC = "perplexity"
POPULATIONS = ("validation", "held_out")

ByPopulation = Mapping[str, Evaluation]


def figures(results: ByPopulation, clean: ByPopulation | None) -> dict[str, Any]:
    """What a row of the report says of one run.

    Args:
      results: The run on each of `POPULATIONS`.
      clean: The clean run of the same rule; None where the run is that one.

    Returns:
      `recall` and `perplexity` and, next to a clean run, `difference` of recall and
      `perplexity_factor`, by population (value, low, high), and a `verdict` on the recall.
    """
    found: dict[str, Any] = {
        "recall": _values(results, METRIC),
        "perplexity": _values(results, SECOND_METRIC),
    }
    if clean is not None:
        found["difference"] = _values(results, METRIC, clean)
        found["perplexity_factor"] = _values(results, SECOND_METRIC, clean)
        found["verdict"] = {people: verdict(value) for people, value in found["difference"].items()}
    return found


def _values(
    results: ByPopulation,
    metric: str,
    clean: ByPopulation | None = None,
) -> dict[str, dict[str, float | None]]:
    """Population -> the metric, or its paired difference to (a perplexity: ratio to) `clean`."""
    return {
        people: (
            result.metrics[metric]
            if clean is None
            else metric_difference(result.sums, clean[people].sums, metric)
        ).to_json()
        for people, result in results.items()
    }


def verdict(difference: Mapping[str, float | None], tolerance: float = TOLERANCE) -> str:
    """Whether an attacked run stays within `tolerance` of the clean one.

    "holds": the whole interval does. "fails": none of it. "open": the interval has both.

    >>> verdict({"value": -0.001, "low": -0.004, "high": 0.002})
    'holds'
    >>> verdict({"value": -0.03, "low": -0.05, "high": -0.01})
    'fails'
    >>> verdict({"value": -0.008, "low": -0.02, "high": 0.004})
    'open'
    """
    low, high = difference["low"], difference["high"]
    if low is None or high is None:
        return "open"
    if low >= -tolerance:
        return "holds"
    return "fails" if high <= -tolerance else "open"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as text, in percent and points."""
    width = max(len("rule"), *(len(row["rule"]) for row in rows))
    lines = [
        f"{'':{width}}  {'':15}"
        + "".join(f"  {people + ' top-1':>16}  {'to clean, points':29}" for people in POPULATIONS)
        + "  held-out perplexity, factor"
    ]
    for row in rows:
        line = f"{row['rule']:{width}}  {row['attack']:15}"
        for people in POPULATIONS:
            recall = _number(row["recall"][people]["value"], ".2f", 100)
            line += f"  {recall:>14} %  {_points(row, people):29}"
        line += f"  {_number(row['perplexity']['held_out']['value'], '.1f'):>19}"
        if "perplexity_factor" in row:
            line += f", {_number(row['perplexity_factor']['held_out']['value'], '.2f')}"
        lines.append(line)
    return "\n".join(
        [
            *lines,
            "",
            f"Within {100 * TOLERANCE:g} point of the clean run: holds (all of the 95 % jackknife "
            "interval over people), fails (none of it), open.",
        ]
    )


def _points(row: Mapping[str, Any], people: str) -> str:
    if "difference" not in row:
        return ""
    value, low, high = (
        _number(row["difference"][people][key], "+.2f", 100) for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}] {row['verdict'][people]}"


def _number(value: float | None, form: str, factor: float = 1.0) -> str:
    """A number that may not exist or be infinite, which JSON does not have."""
    return "-" if value is None else format(factor * value, form)
