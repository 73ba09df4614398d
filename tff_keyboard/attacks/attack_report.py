"""What an attack did to a rule: recall and perplexity beside the clean run, with a verdict."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics.sums import metric_difference

TOLERANCE = 0.01  # of top-1 recall: one point
METRIC = "recall_at_1_no_eos"
SECOND_METRIC = "perplexity"
POPULATIONS = ("validation", "held_out")

ByPopulation: TypeAlias = Mapping[str, Evaluation]
# By population: value, low and high; None where the number does not exist.
Intervals: TypeAlias = Mapping[str, Mapping[str, float | None]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """What an attack did."""

    recall: Intervals
    perplexity: Intervals
    # difference of recall to the clean run; None for the clean run, as the next two
    difference: Intervals | None = None
    perplexity_factor: Intervals | None = None
    verdict: Mapping[str, str] | None = None
    # hit rate of a backdoor by population, see `backdoor.hit_rate`; None where none was tried
    hit: Mapping[str, float] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One training of the report."""

    rule: str
    attack: str
    share: float
    share_of_seats: float  # share of the cohorts that they are to have
    seed: int
    rounds: int
    clients_per_round: int
    refused_updates: int  # updates with NaN or infinity, refused
    impossible_claims: int
    capped_weights: int
    rejected_rounds: int
    figures: Figures

    def to_json(self) -> dict[str, object]:
        """One level, without what is None."""
        values = dataclasses.asdict(self)
        figures = values.pop("figures")
        return values | {name: value for name, value in figures.items() if value is not None}


def figures(
    results: ByPopulation, clean: ByPopulation | None, hit: Mapping[str, float] | None = None
) -> Figures:
    """What a row of the report says of one run; `clean` is None where it is the clean one."""
    recall, perplexity = _values(results, METRIC), _values(results, SECOND_METRIC)
    if clean is None:
        return Figures(recall=recall, perplexity=perplexity, hit=hit)
    difference = _values(results, METRIC, clean)
    return Figures(
        recall=recall,
        perplexity=perplexity,
        difference=difference,
        perplexity_factor=_values(results, SECOND_METRIC, clean),
        verdict={people: verdict(value) for people, value in difference.items()},
        hit=hit,
    )


def _values(results: ByPopulation, metric: str, clean: ByPopulation | None = None) -> Intervals:
    """Population -> the metric, or its paired difference to (a perplexity: ratio to) `clean`."""
    if clean is None:
        return {people: result.metrics[metric].to_json() for people, result in results.items()}
    return {
        people: metric_difference(result.sums, clean[people].sums, metric).to_json()
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


def table(rows: Sequence[Row]) -> str:
    """The rows as text, in percent and points."""
    width = max(len("rule"), *(len(row.rule) for row in rows))
    lines = [
        f"{'':{width}}  {'':15}"
        + "".join(f"  {people + ' top-1':>16}  {'to clean, points':29}" for people in POPULATIONS)
        + "  held-out perplexity, factor"
    ]
    for row in rows:
        found = row.figures
        line = f"{row.rule:{width}}  {row.attack:15}"
        for people in POPULATIONS:
            recall = _number(found.recall[people]["value"], ".2f", 100)
            line += f"  {recall:>14} %  {_points(found, people):29}"
        line += f"  {_number(found.perplexity['held_out']['value'], '.1f'):>19}"
        if found.perplexity_factor is not None:
            line += f", {_number(found.perplexity_factor['held_out']['value'], '.2f')}"
        if found.hit is not None:
            line += f", hit {100 * found.hit['held_out']:.0f} %"
        lines.append(line)
    about = (
        f"Within {100 * TOLERANCE:g} point of the clean run: holds (all of the 95 % jackknife "
        "interval over people), fails (none of it), open."
    )
    return "\n".join([*lines, "", about])


def _points(found: Figures, people: str) -> str:
    if found.difference is None or found.verdict is None:
        return ""
    value, low, high = (
        _number(found.difference[people][key], "+.2f", 100) for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}] {found.verdict[people]}"


def _number(value: float | None, form: str, factor: float = 1.0) -> str:
    """A number that may not exist or be infinite, which JSON does not have."""
    return "-" if value is None else format(factor * value, form)
