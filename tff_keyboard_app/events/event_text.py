"""Formats event logs and figures of counts for a terminal."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tff_keyboard.evaluation.statistics.jackknife import Interval
from tff_keyboard.host.text_table import aligned
from tff_keyboard.privacy.claims.epsilon_text import epsilon_in_short
from tff_keyboard_app.events import event_counts
from tff_keyboard_app.events.event_log import EventLog

_LABELS = {
    "click_through_rate": "click-through rate, of shown suggestions",
    "accepted_a_strip": "accepted, of shown strips",
    "prediction_impression_recall": "prediction impression recall",
    "zero_state_recall": "zero-state recall",
    "taken_back": "taken back, of accepted",
    **{
        f"accepted_at_{p}": f"accepted at position {p}, of accepted"
        for p in range(1, event_counts.PLACES + 1)
    },
}


def summary(logs: Sequence[EventLog]) -> str:
    """Returns a line with the models, days and number of messages of logs."""
    names = sorted({name for log in logs for name in log.models})
    entries = [entry for log in logs for entry in log.models.values()]
    first, last = min(e.first_day for e in entries), max(e.last_day for e in entries)
    messages = sum(entry.messages for entry in entries)
    return f"{messages:,} messages from {first} to {last}, models: {', '.join(names)}."


def figure_table(counts: np.ndarray) -> str:
    """Returns a table of exact counts, with intervals over users.

    `counts` is [users, counts].
    """
    rows = [
        [_LABELS[name], _percent(interval)]
        for name, interval in event_counts.figures(counts).items()
    ]
    sums = counts.sum(axis=0)
    noun = "client" if len(counts) == 1 else "clients"
    clients = f"{len(counts):,} {noun}, {int(sums[0]):,} strips"
    about = f"{clients}. In percent, with 95 % jackknife intervals."
    return f"{about}\n\n{aligned([*rows, *_latencies(sums)])}"


def private_table(sums: np.ndarray, *, epsilon: float, delta: float) -> str:
    """Returns a table of noisy sums, without intervals: the number of users is private."""
    figures: Mapping[str, float] = event_counts.figures_of_sums(sums)
    rows = [[_LABELS[name], _number(value)] for name, value in figures.items()]
    claim = (
        f"Noisy sums, epsilon = {epsilon_in_short(epsilon)} at delta = {delta:g} for one client "
        "with one log. Every further call on logs of the same clients adds its own epsilon. In "
        "percent."
    )
    return f"{claim}\n\n{aligned([*rows, *_latencies(sums)])}"


def _latencies(sums: np.ndarray) -> list[list[str]]:
    """Returns one row per quantile of the strips' latency, as bounds of the histogram."""
    rows = []
    for share in (0.5, 0.95, 0.99):
        end = event_counts.latency_quantile(sums, share)
        last = event_counts.LATENCY_MS[-1]
        words = "-" if math.isnan(end) else f"> {last} ms" if math.isinf(end) else f"<= {end:g} ms"
        rows.append([f"latency, {share:.0%} of strips", words])
    return rows


def _percent(interval: Interval) -> str:
    if math.isnan(interval.low):
        return _number(interval.value)
    value, low, high = (f"{100 * end:.2f}" for end in interval[:3])
    return f"{value} [{low}, {high}]"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.2f}"
