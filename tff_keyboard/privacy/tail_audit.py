"""Empirical differential privacy of a pair of models, one trained without a person, from texts.

Popov et al. 2018, https://arxiv.org/abs/1712.07473: texts are drawn from both models, the
probability of each under one model is divided by that under the other, and the Pareto tail of these
ratios (`tail_statistics`) gives epsilon at a delta, in both directions. An estimate from one
training, not a guarantee; docs/tail_audit.md says what it leaves out.

The other model's texts bound the same epsilon from below with no tail (`direct_bounds`). No figure
is below that bound, and a tail that they contradict is REFUTED: a memorised phrase is in the texts
of one model only, so the tail of the other's cannot show it. Nor can they show a phrase that is
rarer than their detection limit: epsilon at a smaller delta is NOT ESTABLISHED, whatever the tail,
and where no text differs at all.

Results are plain values, as they are written to JSON.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.privacy import direct_bounds, tail_statistics

NO_DIFFERENCE, ESTIMATE, NO_ESTIMATE = "no difference", "estimate", "no estimate"
REFUTED, NOT_ESTABLISHED = "refuted", "not established"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What is drawn and reported.

    Attributes:
      num_texts: Drawn from each model; the smallest tail that is tried needs 100.
      num_words: Of each text, >= 1.
      delta: Epsilon is given here; in (0, 1). Below `detection_limit` there is none.
      epsilon: Delta is given here, too; >= 0.
      seed: Of the texts and of the simulated p-values.
    """

    num_texts: int = 10_000
    num_words: int = 10
    delta: float = 1e-3
    epsilon: float = 1.0
    seed: int = 1

    @property
    def detection_limit(self) -> float:
        """A phrase of smaller probability may be in no text of the model that writes it."""
        return direct_bounds.detection_limit(self.num_texts)


def direction(log_ratios: np.ndarray, settings: Settings) -> dict[str, Any]:
    """What one sample of log-ratios says: the tail that was chosen, epsilon and delta.

    Args:
      log_ratios: [texts] float64, ln c.
      settings: Where epsilon and delta are reported, and the seed.
    """
    search = tail_statistics.fit_tail(log_ratios, seed=settings.seed)
    facts: dict[str, Any] = {
        "outcome": NO_ESTIMATE,
        "largest_log_ratio": float(log_ratios.max()),
        "tried": [
            {name: getattr(tail, name) for name in ("num_tail", "statistic", "p_value")}
            for tail in search.tried
        ],
        "epsilon": None,
        "epsilon_conservative": None,
        "delta_at_epsilon": None,
        "delta_at_epsilon_conservative": None,
    }
    if search.no_difference:
        nothing = {name: 0.0 for name, value in facts.items() if value is None}
        return {**facts, **nothing, "outcome": NO_DIFFERENCE}
    if search.fit is None:
        return facts
    careful = search.fit.conservative()
    found = {
        "epsilon": tail_statistics.estimated_epsilon(log_ratios, search.fit, settings.delta),
        "epsilon_conservative": tail_statistics.estimated_epsilon(
            log_ratios, careful, settings.delta
        ),
        "delta_at_epsilon": tail_statistics.estimated_delta(
            log_ratios, search.fit, settings.epsilon
        ),
        "delta_at_epsilon_conservative": tail_statistics.estimated_delta(
            log_ratios, careful, settings.epsilon
        ),
    }
    finite = {name: value if math.isfinite(value) else None for name, value in found.items()}
    usable = finite["epsilon"] is not None
    return {
        **facts,
        **finite,
        "tail": dataclasses.asdict(search.fit),
        "outcome": ESTIMATE if usable else NO_ESTIMATE,
    }


def both_directions(ratios: Mapping[str, np.ndarray], settings: Settings) -> dict[str, Any]:
    """What the texts of one pair of models say.

    Args:
      ratios: "without" and "with", whose texts they are: ln c, [texts] float64, under the model the
        texts do not come from over the one they do.
      settings: As `direction`.

    Returns:
      `directions`, each as `direction` returns it and checked by the other model's texts:
      `delta_at_epsilon_direct`; `epsilon_direct`, a 95 % lower bound; `refutation`, null where
      nothing contradicts the tail; `smallest_log_ratio_direct`. And the worse of both: `outcome`,
      `epsilon`, `epsilon_conservative`, `epsilon_direct`. Where the outcome is "not established"
      epsilon is null: what the tail says is below what the texts can show.
    """
    directions = {name: direction(values, settings) for name, values in ratios.items()}
    for name, opposite in (("without", "with"), ("with", "without")):
        directions[name] = _checked(directions[name], ratios[name], ratios[opposite], settings)
    return {"directions": directions, **_worse(directions.values())}


def _checked(
    facts: dict[str, Any], sample: np.ndarray, opposite: np.ndarray, settings: Settings
) -> dict[str, Any]:
    """One direction after what the other model's texts say of it."""
    at_least = direct_bounds.direct_epsilon_lower_bound(opposite, settings.delta)
    refutation = None
    if "tail" in facts:
        fit = tail_statistics.TailFit(**facts["tail"])
        refutation = direct_bounds.refutation(sample, fit, opposite)
    is_refuted = refutation is not None or (facts["outcome"] == NO_DIFFERENCE and at_least > 0)
    raised = {
        name: facts[name] if facts[name] is None else max(facts[name], at_least)
        for name in ("epsilon", "epsilon_conservative")
    }
    outcome = REFUTED if is_refuted else facts["outcome"]
    if outcome in (ESTIMATE, NO_DIFFERENCE) and settings.delta < settings.detection_limit:
        outcome, raised = NOT_ESTABLISHED, dict.fromkeys(raised)
    return {
        **facts,
        **raised,
        "outcome": outcome,
        "delta_at_epsilon_direct": tail_statistics.direct_delta(opposite, settings.epsilon),
        "epsilon_direct": at_least,
        "refutation": dataclasses.asdict(refutation) if refutation else None,
        "smallest_log_ratio_direct": float(opposite.min()),
    }


def _worse(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest epsilon of several results; null as soon as one of them has none."""
    results = list(results)
    outcomes = [result["outcome"] for result in results]
    ranking = (REFUTED, NO_ESTIMATE, NOT_ESTABLISHED, ESTIMATE, NO_DIFFERENCE)
    worse: dict[str, Any] = {"outcome": next(o for o in ranking if o in outcomes)}
    for name in ("epsilon", "epsilon_conservative"):
        values = [result[name] for result in results]
        worse[name] = None if None in values else max(values)
    worse["epsilon_direct"] = max(result["epsilon_direct"] for result in results)
    return worse


def worst(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The worst pair: `outcome`, `epsilon`, `epsilon_conservative`, and pairs without estimate."""
    without = [pair["name"] for pair in pairs if pair["outcome"] == NO_ESTIMATE]
    return {**_worse(pairs), "no_estimate_for": without}
