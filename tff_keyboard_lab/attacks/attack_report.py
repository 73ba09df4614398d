"""The effect of attacks on an aggregator: metrics next to the clean run, and a verdict."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.statistics.sums import metric_difference

TOLERANCE = 0.01  # largest loss of top-1 recall: one point
METRIC = "recall_at_1_no_eos"
SECOND_METRIC = "perplexity"
POPULATIONS = ("validation", "held_out")

ByPopulation: TypeAlias = Mapping[str, Evaluation]
# Population -> value, low and high; None if a number does not exist.
Intervals: TypeAlias = Mapping[str, Mapping[str, float | None]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """Metrics of one run of the report."""

    recall: Intervals
    perplexity: Intervals
    # Difference of recall to the clean run. This and the next two are None for the clean run.
    difference: Intervals | None = None
    perplexity_factor: Intervals | None = None
    verdict: Mapping[str, str] | None = None
    # Hit rate of a backdoor by population, see `backdoor.hit_rate`; None if there is no backdoor.
    hit: Mapping[str, float] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One training of the report: its aggregator, its attack, and the effects.

    Attributes:
      rule: Name of the aggregator.
      attack: Name of the attack; `CLEAN` for the run without attackers.
      share: Share of attackers among all clients.
      share_of_seats: Expected share of attackers in the cohorts.
      seed: Seed of the run.
      rounds: Number of rounds.
      clients_per_round: Size of the cohorts.
      refused_updates: Updates with NaN or infinity, refused.
      impossible_claims: Updates whose weight was impossible, and was limited.
      capped_weights: Weights above twice the median, limited.
      rejected_rounds: Rounds whose model was not finite, and was not taken.
      figures: Metrics of the model.
    """

    rule: str
    attack: str
    share: float
    share_of_seats: float  # expected share of attackers in the cohorts
    seed: int
    rounds: int
    clients_per_round: int
    refused_updates: int  # updates with NaN or infinity, refused
    impossible_claims: int
    capped_weights: int
    rejected_rounds: int
    figures: Figures

    def to_json(self) -> dict[str, object]:
        """Returns a flat dict without fields that are None."""
        values = dataclasses.asdict(self)
        figures = values.pop("figures")
        return values | {name: value for name, value in figures.items() if value is not None}


def figures(
    results: ByPopulation, clean: ByPopulation | None, hit: Mapping[str, float] | None = None
) -> Figures:
    """Returns the metrics of one run. `clean` is None for the clean run itself."""
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
    """Returns the metric by population, or its paired difference to `clean`.

    For a perplexity, the difference is a ratio.
    """
    if clean is None:
        return {people: result.metrics[metric].to_json() for people, result in results.items()}
    return {
        people: metric_difference(result.sums, clean[people].sums, metric).to_json()
        for people, result in results.items()
    }


def verdict(difference: Mapping[str, float | None], tolerance: float = TOLERANCE) -> str:
    """Returns whether an attacked run stays within `tolerance` of the clean run.

    "holds" means that the whole interval of the difference does, "fails" that no part of it does,
    and "open" that a part does.

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
    """Returns the rows as text, in percent and points."""
    width = max(len("rule"), *(len(row.rule) for row in rows))
    lines = [
        f"{'':{width}}  {'':15}"
        + "".join(f"  {people + ' top-1':>16}  {'to clean, points':29}" for people in POPULATIONS)
        + "  held-out perplexity, factor"
    ]
    for row in rows:
        values = row.figures
        line = f"{row.rule:{width}}  {row.attack:15}"
        for people in POPULATIONS:
            recall = _number(values.recall[people]["value"], ".2f", 100)
            line += f"  {recall:>14} %  {_points(values, people):29}"
        line += f"  {_number(values.perplexity['held_out']['value'], '.1f'):>19}"
        if values.perplexity_factor is not None:
            line += f", {_number(values.perplexity_factor['held_out']['value'], '.2f')}"
        if values.hit is not None:
            line += f", hit {100 * values.hit['held_out']:.0f} %"
        lines.append(line)
    about = (
        f"Within {100 * TOLERANCE:g} point of the run without attackers: holds (the complete 95 % "
        "jackknife interval over clients), fails (no part of it), open (some of it)."
    )
    return "\n".join([*lines, "", about])


def _points(values: Figures, people: str) -> str:
    """Returns the difference to the clean run in points, with its interval and verdict."""
    if values.difference is None or values.verdict is None:
        return ""
    value, low, high = (
        _number(values.difference[people][key], "+.2f", 100) for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}] {values.verdict[people]}"


def _number(value: float | None, form: str, factor: float = 1.0) -> str:
    """Formats a number. JSON has no infinite numbers and stores them as null."""
    return "-" if value is None else format(factor * value, form)
