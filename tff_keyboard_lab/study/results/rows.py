"""Rows of a study's table: an arm's metrics over its seeds, and its differences to the control.

Intervals are 95 % jackknife intervals over clients; for differences they are paired. With several
seeds, a client is left out of all of them at once. The interval of a metric describes these
clients. The interval of a difference over several seeds also contains the scatter of the seeds' own
differences.

A verdict, "better", "worse" or "not distinguishable", needs at least `comparison.FEWEST_SEEDS`
seeds. "better" and "worse" also need an interval on one side of zero, and each seed's difference on
the same side. With fewer seeds the verdict only states their number: two seeds establish neither a
difference nor its absence within a margin.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from tff_keyboard.evaluation.metrics.metric_table import METRICS, Metric
from tff_keyboard.evaluation.results.comparison import (
    pooled_difference,
    verdict,
    verdict_over_seeds,
)
from tff_keyboard.evaluation.results.result import Evaluation, pooled_sums
from tff_keyboard.evaluation.statistics.clients import spread
from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.evaluation.statistics.sums import metric_interval
from tff_keyboard_lab.study.plan.plan import variant_name
from tff_keyboard_lab.study.plan.study_file import Arm, Study
from tff_keyboard_lab.study.results.run_facts import RunFacts

BySeed = Mapping[int, Mapping[str, Evaluation]]  # seed -> population -> evaluation
Metrics: TypeAlias = dict[str, dict[str, Interval]]  # population -> metric -> value
_T = TypeVar("_T")


class Difference(NamedTuple):
    """A paired difference."""

    interval: Interval  # interval over clients; for a perplexity, of the factor
    says: str  # verdict from the interval alone, for any number of seeds

    def to_json(self) -> dict[str, object]:
        """Returns plain values."""
        return {**self.interval.to_json(), "says": self.says}


Differences: TypeAlias = dict[str, dict[str, Difference]]  # population -> metric -> difference


@dataclasses.dataclass(frozen=True)
class Compared:
    """An arm compared with another one, on the seeds that both have."""

    differences: Differences
    of_seeds: dict[int, Differences]  # seed -> its own differences
    verdicts: dict[str, dict[str, str]]  # population -> metric -> verdict from all seeds

    def to_json(self) -> dict[str, object]:
        """Returns plain values."""
        return {
            "differences": _to_json(self.differences),
            "differences_of_seeds": {str(s): _to_json(each) for s, each in self.of_seeds.items()},
            "verdicts": self.verdicts,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """An arm, or a model next to the arms, at one point of a sweep."""

    arm: str
    point: str
    name: str
    # Seed -> facts of its run; None for a model, which is not trained by the study.
    facts: dict[int, RunFacts | None]
    metrics: Metrics  # means over seeds; for a perplexity, the geometric mean
    seeds: dict[int, Metrics]
    # Population -> mean of `study.worst_tenth` over the worst tenth of its clients, or empty
    worst_tenths: dict[str, float]
    paper: str = ""
    # Comparison with the control at the same point; None for the control or without a common seed.
    to_control: Compared | None = None
    # Comparison with the one model of `study.before`, for the arms that start from it.
    since: Compared | None = None
    # Comparison with the arm of `step_from` at the same point, for arms that have one.
    step: Compared | None = None

    def to_json(self, study: Study) -> dict[str, object]:
        """Returns plain values, without optional fields that the row does not have."""
        content: dict[str, object] = {
            "arm": self.arm,
            "point": self.point,
            "name": self.name,
            "facts": {
                str(s): each.to_json(study) if each else {} for s, each in self.facts.items()
            },
            "metrics": _to_json(self.metrics),
            "seeds": {str(seed): _to_json(each) for seed, each in self.seeds.items()},
        }
        if study.worst_tenth:
            content["worst_tenth"] = {study.worst_tenth: self.worst_tenths}
        if self.paper:
            content["paper"] = self.paper
        if self.to_control:
            content |= self.to_control.to_json()
        if self.since:
            content["since"] = self.since.to_json()
        if self.step:
            content["step"] = self.step.to_json()
        return content


def rows_of(
    study: Study,
    results: Mapping[tuple[str, str], BySeed],
    facts: Mapping[tuple[str, str], Mapping[int, RunFacts | None]],
) -> list[Row]:
    """Returns a row for each arm and point that has a run, and for each model next to them."""
    return [_row(study, key, results, facts[key]) for key, by_seed in results.items() if by_seed]


def _row(
    study: Study,
    key: tuple[str, str],
    results: Mapping[tuple[str, str], BySeed],
    facts: Mapping[int, RunFacts | None],
) -> Row:
    """Returns the row of an (arm, point), compared with the control and with earlier runs."""
    arm, point = key
    by_seed, table_row = results[key], study.row(arm)
    control = results.get((study.control, point), {}) if arm != study.control else {}
    before_all: BySeed = {}
    step_from: BySeed = {}
    if isinstance(table_row, Arm):
        step_from = results.get((table_row.step_from, point), {})
        of_one_seed = list(results.get((study.before, ""), {}).values())
        if of_one_seed and table_row.after == study.before:
            before_all = dict.fromkeys(by_seed, of_one_seed[0])
    return Row(
        arm=arm,
        point=point,
        name=variant_name(table_row.label or arm, point),
        facts={seed: facts[seed] for seed in by_seed},
        metrics=_metrics(study, list(by_seed.values())),
        seeds={seed: _metrics(study, [evaluations]) for seed, evaluations in by_seed.items()},
        worst_tenths=_worst_tenths(study, list(by_seed.values())),
        paper=table_row.paper,
        to_control=_compared(study, by_seed, control),
        since=_compared(study, by_seed, before_all),
        step=_compared(study, by_seed, step_from),
    )


def _compared(study: Study, ours: BySeed, control: BySeed) -> Compared | None:
    """Returns the comparison, or None if the two have no seed in common."""
    both = [seed for seed in ours if seed in control]
    if not both:
        return None
    pooled = _differences(study, ours, control, both)
    of_seeds = {seed: _differences(study, ours, control, [seed]) for seed in both}
    return Compared(pooled, of_seeds, _verdicts(study, pooled, of_seeds))


def _table(study: Study, cell: Callable[[str, Metric], _T]) -> dict[str, dict[str, _T]]:
    """Returns a value for each population and metric of the study."""
    return {
        people: {name: cell(people, METRICS[name]) for name in study.metrics}
        for people in study.populations
    }


def _metrics(study: Study, evaluations: Sequence[Mapping[str, Evaluation]]) -> Metrics:
    """Returns population -> metric -> interval, pooled over seeds."""

    def value(people: str, metric: Metric) -> Interval:
        return metric_interval(pooled_sums([each[people] for each in evaluations]), metric.name)

    return _table(study, value)


def _worst_tenths(
    study: Study, evaluations: Sequence[Mapping[str, Evaluation]]
) -> dict[str, float]:
    """Returns population -> mean over the tenth of the clients with the worst values over seeds."""
    if not study.worst_tenth:
        return {}
    return {
        people: spread(
            pooled_sums([each[people] for each in evaluations]), study.worst_tenth
        ).worst_tenth
        for people in study.populations
    }


def _differences(study: Study, ours: BySeed, control: BySeed, seeds: Sequence[int]) -> Differences:
    """Returns population -> metric -> paired difference to the control, pooled over seeds."""

    def difference(people: str, metric: Metric) -> Difference:
        pairs = [[of[seed][people] for seed in seeds] for of in (ours, control)]
        interval = pooled_difference(pairs[0], pairs[1], metric.name)
        return Difference(interval, verdict(interval, better=metric.better, neutral=metric.neutral))

    return _table(study, difference)


def _verdicts(
    study: Study, pooled: Differences, of_seeds: Mapping[int, Differences]
) -> dict[str, dict[str, str]]:
    """Returns population -> metric -> verdict, which also considers each single seed."""

    def together(people: str, metric: Metric) -> str:
        single = [each[people][metric.name].interval.to_json() for each in of_seeds.values()]
        says, values = pooled[people][metric.name].says, [each["value"] for each in single]
        return verdict_over_seeds(says, values, neutral=metric.neutral)

    return _table(study, together)


def _to_json(by_people: Mapping[str, Mapping[str, Interval | Difference]]) -> dict[str, object]:
    return {
        people: {name: value.to_json() for name, value in by_metric.items()}
        for people, by_metric in by_people.items()
    }
