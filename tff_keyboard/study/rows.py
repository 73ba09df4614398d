"""A row of a study's table: an arm's metrics over its seeds, its differences to the control.

Intervals are 95 % jackknives over people, paired where they are of differences; with several seeds
a person is left out of all of them at once. Those of a metric tell how far it is one of these
people; those of a difference over several seeds carry the scatter of the seeds' own differences,
too.

A verdict, "better", "worse" or "not distinguishable", needs at least `comparison.FEWEST_SEEDS`
seeds; the first two an interval that lies on one side and seeds that all do. With fewer it says how
few there are: two seeds establish neither a difference nor that there is none within a margin.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_keyboard.evaluation import communication
from tff_keyboard.evaluation.comparison import pooled_difference, verdict, verdict_over_seeds
from tff_keyboard.evaluation.metric_table import METRICS, Metric
from tff_keyboard.evaluation.result import Evaluation, pooled_sums
from tff_keyboard.evaluation.sums import metric_interval
from tff_keyboard.privacy import guarantee, ledger
from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.study import curve, provenance
from tff_keyboard.study.plan import Run, variant_name
from tff_keyboard.study.study_file import Arm, Study

BySeed = Mapping[int, Mapping[str, Evaluation]]  # seed -> population -> evaluation


def facts_of(run: Run, study: Study) -> dict[str, Any]:
    """What a run trained on, sent and, if it claims privacy, spent; where its curve got to, and
    what code and machine it began with.
    """
    directory = RunDirectory(run.path)
    rows = directory.all_rows()
    facts: dict[str, Any] = {
        "rounds": len(rows),
        "tokens": math.fsum(float(row.get(curve.TOKENS, 0)) for row in rows),
        **_sent(run, rows),
        "rejected_rounds": int(metrics_rows.total(rows, "rejected")),
        **curve.summary(curve.of_rows(rows), flat_within=study.flat_within, target=study.target),
    }
    for name, label in (
        ("effective_clients", "effective_clients"),
        ("adaptive", "adaptive_rounds"),
    ):
        values = [float(v) for row in rows for k, v in row.items() if k.endswith(f"/{name}")]
        if values:
            facts[label] = math.fsum(values) / len(values)
    if directory.privacy_ledger.exists():
        facts["privacy"] = _privacy(directory)
    return facts | provenance.of_run(run)


def _sent(run: Run, rows: Sequence[metrics_rows.Row]) -> dict[str, float]:
    """Bytes; a training on a server sends none."""
    if run.task == "train-server":
        return {"upload_bytes_per_round": 0.0, "rehearsal_bytes": 0.0, "total_bytes": 0.0}
    account = communication.account(rows, parameters=communication.num_parameters(run.path))
    return {
        "upload_bytes_per_round": account.bytes_up / account.rounds,
        "rehearsal_bytes": account.rehearsal_bytes,
        "total_bytes": account.total_bytes,
    }


def _privacy(directory: RunDirectory) -> dict[str, Any]:
    header, rounds = ledger.read_ledger(directory.privacy_ledger)
    total = guarantee.total_guarantee(header, len(rounds))
    claimed = total is not None and math.isfinite(total.epsilon)
    return {
        "noise_multiplier": header.noise_multiplier,
        "clip_norm": header.clip_norm,
        "epsilon": total.epsilon if total is not None and claimed else None,
        "delta": header.delta if total is None else total.delta,
        "adjacency": "" if total is None else total.adjacency,
        "accounting": "no claim" if total is None else total.method,  # says "PROJECTION", too
    }


def rows_of(
    study: Study,
    results: Mapping[tuple[str, str], BySeed],
    facts: Mapping[tuple[str, str], Mapping[int, Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """A row for each arm and point that has a run, and for each model beside them; JSON values.

    Args:
      study: Names the control, the metrics and the populations.
      results: `(arm, point)` -> seed -> population -> evaluation.
      facts: `(arm, point)` -> seed -> `facts_of`; nothing of a model beside the arms.

    Returns:
      Rows with `metrics` (population -> metric -> value, low, high; means over seeds, of a
      perplexity the geometric one), `seeds` (the same of each) and, but for the control,
      `differences` and `verdicts` against the control at the same point, on the seeds both have.
      `since` has the same against the one model of `study.before`, for the arms that begin with it,
      `step` against the arm of `step_from` at the same point, for those that name one.
    """
    return [_row(study, key, results, facts[key]) for key, by_seed in results.items() if by_seed]


def _row(
    study: Study,
    key: tuple[str, str],
    results: Mapping[tuple[str, str], BySeed],
    facts: Mapping[int, Mapping[str, Any]],
) -> dict[str, Any]:
    arm, point = key
    by_seed, ours = results[key], study.row(arm)
    row: dict[str, Any] = {
        "arm": arm,
        "point": point,
        "name": variant_name(ours.label or arm, point),
        "facts": {str(seed): dict(facts[seed]) for seed in by_seed},
        "metrics": _metrics(study, list(by_seed.values())),
        "seeds": {str(seed): _metrics(study, [found]) for seed, found in by_seed.items()},
    }
    if ours.paper:
        row["paper"] = ours.paper
    control = results.get((study.control, point), {})
    if arm != study.control:
        row |= _compared(study, by_seed, control)
    before = list(results.get((study.before, ""), {}).values())
    if before and isinstance(ours, Arm) and ours.after == study.before:
        row["since"] = _compared(study, by_seed, dict.fromkeys(by_seed, before[0]))
    earlier = results.get((ours.step_from, point), {}) if isinstance(ours, Arm) else {}
    if step := _compared(study, by_seed, earlier):
        row["step"] = step
    return row


def _compared(study: Study, ours: BySeed, control: BySeed) -> dict[str, Any]:
    """Empty where the two have no seed in common."""
    both = [seed for seed in ours if seed in control]
    if not both:
        return {}
    pooled = _differences(study, ours, control, both)
    of_seeds = {str(seed): _differences(study, ours, control, [seed]) for seed in both}
    return {
        "differences": pooled,
        "differences_of_seeds": of_seeds,
        "verdicts": _verdicts(study, pooled, of_seeds),
    }


def _metrics(study: Study, evaluations: Sequence[Mapping[str, Evaluation]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for people in study.populations:
        sums = pooled_sums([each[people] for each in evaluations])
        found[people] = {name: metric_interval(sums, name).to_json() for name in study.metrics}
    return found


def _differences(study: Study, ours: BySeed, control: BySeed, seeds: Sequence[int]) -> Any:
    return {
        people: {
            name: _difference(
                [ours[seed][people] for seed in seeds],
                [control[seed][people] for seed in seeds],
                METRICS[name],
            )
            for name in study.metrics
        }
        for people in study.populations
    }


def _difference(
    ours: Sequence[Evaluation], control: Sequence[Evaluation], metric: Metric
) -> dict[str, Any]:
    interval = pooled_difference(ours, control, metric.name)
    says = verdict(interval, better=metric.better, neutral=metric.neutral)
    return {**interval.to_json(), "says": says}


def _verdicts(study: Study, pooled: Any, of_seeds: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {
        people: {
            name: verdict_over_seeds(
                pooled[people][name]["says"],
                [each[people][name]["value"] for each in of_seeds.values()],
                neutral=METRICS[name].neutral,
            )
            for name in study.metrics
        }
        for people in study.populations
    }
