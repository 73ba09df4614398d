"""Prints the result of a tail audit. The text states first that it is an estimate."""

import dataclasses
import json
import math
from collections.abc import Sequence

from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_short
from tff_keyboard_lab.audits import direct_bounds, tail_audit
from tff_keyboard_lab.audits.neighbouring_runs import Formal

CLAIM = "EMPIRICAL ESTIMATE of this one training, NOT A GUARANTEE"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TailAudit:
    """Results from the texts of pairs of models."""

    settings: tail_audit.Settings
    full: str
    formal: Formal | None  # claim of the run's ledger; None if it has none
    pairs: Sequence[tail_audit.Pair]

    @property
    def worst(self) -> tail_audit.WorstResult:
        """The worst pair."""
        return tail_audit.worst(self.pairs)

    def to_json(self) -> str:
        """Returns all figures as the content of a file."""
        content = {
            "claim": CLAIM,
            **dataclasses.asdict(self.settings),
            "detection_limit": self.settings.detection_limit,
            "full": self.full,
            "formal": self.formal and dataclasses.asdict(self.formal),
            "pairs": [dataclasses.asdict(pair) for pair in self.pairs],
            "worst": dataclasses.asdict(self.worst),
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def table(result: TailAudit) -> str:
    """Returns the result as text for a terminal, which states first that it is an estimate."""
    settings = result.settings
    width = max(len("pair"), *(len(pair.name) for pair in result.pairs))
    lines = [
        f"{CLAIM}: what {settings.num_texts:,} texts of {settings.num_words} words from each "
        "model reveal about the absence of one client.",
        "",
        f"{'pair':{width}}  texts from      k  alpha [95 %]             C  Lilliefors D, p"
        "  epsilon  cautious    delta   direct  eps >=  largest ln c",
    ]
    for pair in result.pairs:
        for name, facts in pair.directions.items():
            figures = _figures(facts, settings.detection_limit)
            lines.append(f"{pair.name:{width}}  {name:10}  {figures}")
    lines += [
        "",
        "Texts come from the model with or without the client. epsilon: at delta "
        f"{settings.delta:g}; cautious: with the lower end of alpha's interval; "
        f"delta: at epsilon {settings.epsilon:g}, unless it is below the detection limit; direct: "
        "that delta without the tail, from the other model's texts; eps >=: what those prove of "
        "epsilon, with 95 %. Detection limit: a phrase of probability below "
        f"{settings.detection_limit:.1e} may be in none of the texts, whatever delta says.",
    ]
    for pair in result.pairs:
        for name, facts in pair.directions.items():
            lines += _refutation(f"{pair.name}, {name}", facts)
        if pair.rounds_joined is not None:
            rounds = pair.rounds_joined
            lines.append(f"{pair.name}: this client took part in {rounds} rounds.")
        if pair.other_differences:
            differing = ", ".join(f"`{key}`" for key in pair.other_differences)
            lines.append(
                f"{pair.name}: the runs also differ in {differing}, so the result is not only due "
                "to the client."
            )
    return "\n".join([*lines, "", _verdict(result), _formal(result)])


def _refutation(name: str, facts: tail_audit.DirectionResult) -> list[str]:
    """Returns the line about a direction whose tail the texts contradict; [] for others."""
    if facts.outcome != tail_audit.REFUTED:
        return []
    refutation = facts.refutation
    tail = "its tail denies any difference"
    if refutation is not None:
        tail = (
            f"at epsilon {refutation.epsilon:.2g} its tail says delta {refutation.delta_tail:.1e}, "
            f"the other model's texts at least {refutation.delta_direct_low:.1e}"
        )
    return [
        f"{name}: REFUTED: {tail}. The other model generates texts that this one almost never "
        f"generates (ln c {facts.smallest_log_ratio_direct:.3g}), such as a memorised phrase."
    ]


def _figures(facts: tail_audit.DirectionResult, limit: float) -> str:
    """Returns the row of one direction in the table. Below `limit`, a delta cannot be seen."""
    if facts.tail is None and facts.outcome != tail_audit.NO_ESTIMATE:
        unknown = facts.outcome == tail_audit.NOT_ESTABLISHED
        epsilon = "not established" if unknown else _epsilon(facts.epsilon)
        return f"no difference: every ratio is exactly 1; epsilon {epsilon}"
    if facts.outcome == tail_audit.NO_ESTIMATE:
        p_values = ", ".join(f"{tail.p_value:.3f}" for tail in facts.tried)
        return (
            f"NO ESTIMATE: no tail passes as Pareto with a mean (p {p_values}); largest ln c "
            f"{facts.largest_log_ratio:.4g}; epsilon >= {facts.epsilon_direct:.2f}"
        )
    tail, delta = facts.tail, facts.delta_at_epsilon
    assert tail is not None  # an estimate has both
    assert delta is not None
    interval = f"{tail.alpha:.1f} [{tail.alpha_low:.1f}, {tail.alpha_high:.1f}]"
    test = f"{tail.statistic:.3f}, {tail.p_value:.2f}"
    epsilon, careful = (
        "-" if facts.outcome == tail_audit.NOT_ESTABLISHED else _epsilon(value)
        for value in (facts.epsilon, facts.epsilon_conservative)
    )
    delta_text = "below" if delta < limit else f"{delta:.1e}"
    return (
        f"{tail.num_tail:5}  {interval:21} {_scale(tail.log_scale):>8}  {test:15}"
        f"  {epsilon:>7}  {careful:>8}"
        f"  {delta_text:>7}  {facts.delta_at_epsilon_direct:7.1e}"
        f"  {facts.epsilon_direct:6.3f}"
        f"  {facts.largest_log_ratio:12.4g}"
    )


def _scale(log_scale: float) -> str:
    return f"{math.exp(log_scale):.3g}" if abs(log_scale) < 200 else f"e^{log_scale:.0f}"


def _epsilon(epsilon: float | None) -> str:
    return "infinite" if epsilon is None else f"{epsilon:.4f}"


def _confidence(pairs: Sequence[object]) -> str:
    """Returns the confidence of a bound that is the largest of all pairs and directions."""
    if len(pairs) == 1:
        return "with 95 % for each direction"
    return f"the largest of {2 * len(pairs)} bounds, each with 95 %"


def _verdict(result: TailAudit) -> str:
    """Returns the result of the worst pair and direction, as a sentence."""
    worst, pairs, settings = result.worst, result.pairs, result.settings
    if worst.outcome == tail_audit.REFUTED:
        return (
            "REFUTED: the texts contradict the tail, so there is no estimate, only a bound: "
            f"epsilon is at least {worst.epsilon_direct:.2f} at delta {settings.delta:g}, "
            f"{_confidence(pairs)}."
        )
    if worst.outcome == tail_audit.NO_ESTIMATE:
        return (
            f"NO ESTIMATE overall: in {len(worst.no_estimate_for)} of {len(pairs)} pairs a "
            f"direction has none ({', '.join(worst.no_estimate_for)}). This is not a sign of "
            "privacy. More --texts reach further into the tail. Epsilon is at least "
            f"{worst.epsilon_direct:.2f}, {_confidence(pairs)}."
        )
    if worst.outcome == tail_audit.NOT_ESTABLISHED:
        return (
            f"NOT ESTABLISHED: delta {settings.delta:g} is below the detection limit of "
            f"{settings.num_texts:,} texts, {settings.detection_limit:.1e}. Epsilon is at least "
            f"{worst.epsilon_direct:.2f}, {_confidence(pairs)}. Draw "
            f"--texts={direct_bounds.texts_needed(settings.delta)}, or ask for a larger --delta."
        )
    if worst.outcome == tail_audit.NO_DIFFERENCE:
        return (
            "No difference: the models of every pair give the same probability to every text. "
            f"The result says nothing about phrases with a probability below "
            f"{settings.detection_limit:.1e}."
        )
    return (
        f"Worst of {len(pairs)} pairs and both directions, estimated: epsilon "
        f"{_epsilon(worst.epsilon)} at delta {settings.delta:g}; cautious "
        f"{_epsilon(worst.epsilon_conservative)}. The result says nothing about phrases with a "
        f"probability below {settings.detection_limit:.1e}."
    )


def _formal(result: TailAudit) -> str:
    """Returns the sentence about the guarantee of the run's ledger."""
    formal = result.formal
    if formal is None:
        return (
            "Formal guarantee: none, because the run has no privacy ledger "
            "(`aggregation.privacy.type`)."
        )
    if not formal.claims:
        return (
            f"Formal guarantee: NO CLAIM about the {formal.rounds} rounds' models. Reason: "
            f"tff-keyboard privacy {formal.run}"
        )
    epsilon = "infinite" if formal.epsilon is None else epsilon_in_short(formal.epsilon)
    labels = f" [{'; '.join(formal.labels)}]" if formal.labels else ""
    return (
        f"Formal guarantee, of all {formal.rounds} rounds' models: epsilon {epsilon}{labels} at "
        f"delta {formal.delta:g} ({formal.adjacency}). Assumptions: tff-keyboard privacy "
        f"{formal.run}"
    )
