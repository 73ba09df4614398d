"""Estimates, before any is begun, the tokens of a study's runs and the hours they take here.

Tokens are those of the average person of the store, cut at `client.max_examples` messages; people
differ, so a run's own figure does, too. Hours are at the rate of the rounds that the study's runs
have done on this machine, or at `ASSUMED_RATE` before the first.
"""

import csv
import math
import pathlib
from collections.abc import Sequence

from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.study import runner
from tff_keyboard.study.plan import Run
from tff_keyboard.text_table import aligned

ASSUMED_RATE = 4000.0  # tokens a second: small clients, two cores (docs/performance.md)


def tokens_of(run: Run, stores: dict[str, tuple[float, float]]) -> float:
    """Tokens that a run trains on, about.

    Args:
      run: The run.
      stores: Path -> `(messages a person, tokens a message)`; filled in here.
    """
    config = run.config
    if config.data.store not in stores:
        stores[config.data.store] = _averages(config.data.store)
    messages, tokens = stores[config.data.store]
    most = config.client.max_examples or messages  # 0 is all that a person has
    if run.task == "train":  # a round of pooled training is as many messages as clients may have
        most = min(messages, most) * config.client.epochs
    return config.train.rounds * config.train.clients_per_round * most * tokens


def plan_text(runs: Sequence[Run], *, jobs: int) -> str:
    """A line for each arm and point, and the sum."""
    stores: dict[str, tuple[float, float]] = {}
    finished = [run for run in runs if runner.is_finished(run)]
    by_variant: dict[str, list[Run]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    rate = measured_rate(runs)
    rows = [["", "seeds", "rounds", "clients", "M tokens", "done"]]
    for name, members in by_variant.items():
        tokens = sum(tokens_of(run, stores) for run in members)
        train = members[0].config.train
        rows.append(
            [
                name,
                str(len(members)),
                f"{train.rounds:,}",
                str(train.clients_per_round),
                f"{tokens / 1e6:.1f}",
                f"{sum(run in finished for run in members)}/{len(members)}",
            ]
        )
    left = sum(
        tokens_of(run, stores) * (1 - runner.rounds_done(run) / run.config.train.rounds)
        for run in runs
        if run not in finished
    )
    pace = f"{rate:,.0f} tokens/s as measured here" if rate else f"{ASSUMED_RATE:,.0f} tokens/s"
    hours = left / (rate or ASSUMED_RATE) / 3600
    at_a_time = f", {jobs} at a time" if jobs > 1 else ""
    return (
        f"{aligned(rows)}\n\n{len(runs)} runs{at_a_time}, {len(finished)} finished; "
        f"about {left / 1e6:.1f} M tokens to go, {hours:.1f} hours at {pace}."
    )


def measured_rate(runs: Sequence[Run]) -> float:
    """Tokens a second over all rounds that the runs have on disk; 0 where there is none."""
    tokens = seconds = 0.0
    for run in runs:
        path = RunDirectory(run.path).timings_csv
        if not path.exists():
            continue
        with path.open(newline="") as file:
            times = [row.get("round_seconds") or "" for row in csv.DictReader(file)]
        done = RunDirectory(run.path).all_rows() if runner.rounds_done(run) else []
        for row, time in zip(done, times, strict=False):
            if time:
                tokens += float(row.get("tokens", 0.0))
                seconds += float(time)
    return tokens / seconds if seconds and math.isfinite(seconds) else 0.0


def _averages(store: str) -> tuple[float, float]:
    people = read_card(pathlib.Path(store))["populations"]["train"]
    messages = people["messages"] / max(people["clients"], 1)
    tokens = (people["words"] + people["messages"]) / max(people["messages"], 1)
    return messages, tokens
