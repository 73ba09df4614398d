"""Empirical differential privacy of a pair of models, one trained without a client, from texts.

Popov et al. 2018, https://arxiv.org/abs/1712.07473: texts are drawn from both models, the
probability of each under one model is divided by that under the other, and the Pareto tail of these
ratios (`tail_statistics`) gives epsilon at a delta, in both directions. It is an estimate from one
training, not a guarantee; docs/privacy/tail_audit.md lists its limits.

The other model's texts bound the same epsilon from below without a tail (`direct_bounds`). No
figure is below that bound, and a tail that these texts contradict is REFUTED: a memorised phrase is
only in the texts of one model, so the tail of the other model's texts cannot show it. They cannot
show a phrase that is rarer than their detection limit either. Therefore epsilon at a smaller delta
is NOT ESTABLISHED, whatever the tail, and even if no text differs at all.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tff_keyboard_lab.audits import direct_bounds, tail_statistics

NO_DIFFERENCE, ESTIMATE, NO_ESTIMATE = "no difference", "estimate", "no estimate"
REFUTED, NOT_ESTABLISHED = "refuted", "not established"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of an audit."""

    num_texts: int = 10_000  # texts drawn from each model; the smallest tail needs 100
    num_words: int = 10
    delta: float = 1e-3  # for which epsilon is reported; in (0, 1), at least `detection_limit`
    epsilon: float = 1.0  # for which delta is reported; >= 0
    seed: int = 1

    @property
    def detection_limit(self) -> float:
        """Probability below which a phrase may be in no text of the model that writes it."""
        return direct_bounds.detection_limit(self.num_texts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Result of an audit, from some texts."""

    outcome: str
    # Epsilon at `Settings.delta`; None if there is no estimate, for the reason in `outcome`.
    epsilon: float | None = None
    # The same at the lower end of alpha; None if it is infinite.
    epsilon_conservative: float | None = None
    epsilon_direct: float = 0.0  # 95 % lower bound that needs no tail


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailCandidate:
    """One tail that was tried; see `tail_statistics.TailFit`."""

    num_tail: int
    statistic: float
    p_value: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionResult(AuditResult):
    """Result from the texts of one model of a pair.

    The last three fields come from the other's texts.
    """

    largest_log_ratio: float
    tried: tuple[TailCandidate, ...]
    # The chosen tail; None if no tail passes the test, or every ratio is 1.
    tail: tail_statistics.TailFit | None = None
    delta_at_epsilon: float | None = None
    delta_at_epsilon_conservative: float | None = None  # delta; see `epsilon_conservative`
    delta_at_epsilon_direct: float = 0.0
    # Contradiction of the tail by the other model's texts; None if there is none.
    refutation: direct_bounds.Refutation | None = None
    smallest_log_ratio_direct: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair(AuditResult):
    """The worse of both directions of one pair of models."""

    directions: Mapping[str, DirectionResult]  # "without" and "with": the model of the texts
    name: str = ""
    model: str = ""
    rounds_joined: int | None = None  # rounds that the client joined; None if not known
    other_differences: Sequence[str] = ()  # other config keys in which the runs differ


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorstResult(AuditResult):
    """The worst pair."""

    no_estimate_for: Sequence[str] = ()


def direction(log_ratios: np.ndarray, settings: Settings) -> DirectionResult:
    """Returns the result from one sample of log-ratios: the chosen tail, epsilon and delta."""
    search = tail_statistics.fit_tail(log_ratios, seed=settings.seed)
    tried = tuple(
        TailCandidate(num_tail=tail.num_tail, statistic=tail.statistic, p_value=tail.p_value)
        for tail in search.tried
    )
    facts = DirectionResult(
        outcome=NO_ESTIMATE, largest_log_ratio=float(log_ratios.max()), tried=tried
    )
    if search.no_difference:
        return dataclasses.replace(
            facts,
            outcome=NO_DIFFERENCE,
            epsilon=0.0,
            epsilon_conservative=0.0,
            delta_at_epsilon=0.0,
            delta_at_epsilon_conservative=0.0,
        )
    if search.fit is None:
        return facts
    careful = search.fit.conservative()
    epsilon = _finite(tail_statistics.estimated_epsilon(log_ratios, search.fit, settings.delta))
    return dataclasses.replace(
        facts,
        outcome=NO_ESTIMATE if epsilon is None else ESTIMATE,
        tail=search.fit,
        epsilon=epsilon,
        epsilon_conservative=_finite(
            tail_statistics.estimated_epsilon(log_ratios, careful, settings.delta)
        ),
        delta_at_epsilon=_finite(
            tail_statistics.estimated_delta(log_ratios, search.fit, settings.epsilon)
        ),
        delta_at_epsilon_conservative=_finite(
            tail_statistics.estimated_delta(log_ratios, careful, settings.epsilon)
        ),
    )


def both_directions(ratios: Mapping[str, np.ndarray], settings: Settings) -> Pair:
    """Returns the result from the texts of one pair of models.

    `ratios` has keys "without" and "with", which name the model of the texts. The values are ln c,
    [texts] float64: log-probability under the other model minus that under the model of the texts.
    "Not established" has no epsilon, because the tail's figure is below what the texts can show.
    """
    directions = {name: direction(values, settings) for name, values in ratios.items()}
    for name, opposite in (("without", "with"), ("with", "without")):
        directions[name] = _with_direct_bounds(
            directions[name], ratios[name], ratios[opposite], settings
        )
    return Pair(**vars(_worse(directions.values())), directions=directions)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _with_direct_bounds(
    facts: DirectionResult, sample: np.ndarray, opposite: np.ndarray, settings: Settings
) -> DirectionResult:
    """Returns one direction after the checks with the other model's texts."""
    at_least = direct_bounds.direct_epsilon_lower_bound(opposite, settings.delta)
    refutation = None
    if facts.tail is not None:
        refutation = direct_bounds.refutation(sample, facts.tail, opposite)
    is_refuted = refutation is not None or (facts.outcome == NO_DIFFERENCE and at_least > 0)
    outcome = REFUTED if is_refuted else facts.outcome
    is_seen = settings.delta >= settings.detection_limit
    if outcome in (ESTIMATE, NO_DIFFERENCE) and not is_seen:
        outcome = NOT_ESTABLISHED

    def raised(value: float | None) -> float | None:
        return None if value is None or outcome == NOT_ESTABLISHED else max(value, at_least)

    return dataclasses.replace(
        facts,
        outcome=outcome,
        epsilon=raised(facts.epsilon),
        epsilon_conservative=raised(facts.epsilon_conservative),
        delta_at_epsilon_direct=tail_statistics.direct_delta(opposite, settings.epsilon),
        epsilon_direct=at_least,
        refutation=refutation,
        smallest_log_ratio_direct=float(opposite.min()),
    )


def _worse(results: Iterable[AuditResult]) -> AuditResult:
    """Returns the worst outcome and the largest epsilons. One unknown epsilon makes it None."""
    results = list(results)
    outcomes = [result.outcome for result in results]
    ranking = (REFUTED, NO_ESTIMATE, NOT_ESTABLISHED, ESTIMATE, NO_DIFFERENCE)
    return AuditResult(
        outcome=next(outcome for outcome in ranking if outcome in outcomes),
        epsilon=_largest([result.epsilon for result in results]),
        epsilon_conservative=_largest([result.epsilon_conservative for result in results]),
        epsilon_direct=max(result.epsilon_direct for result in results),
    )


def _largest(values: Sequence[float | None]) -> float | None:
    """Returns the largest value; None if one of them is not known."""
    known_values = [value for value in values if value is not None]
    return max(known_values) if len(known_values) == len(values) else None


def worst(pairs: Sequence[Pair]) -> WorstResult:
    """Returns the worst pair, with the names of pairs without an estimate."""
    without = [pair.name for pair in pairs if pair.outcome == NO_ESTIMATE]
    return WorstResult(**vars(_worse(pairs)), no_estimate_for=without)
