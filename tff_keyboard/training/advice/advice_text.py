"""Formats advice as text."""

import pathlib
import shlex

from tff_keyboard.host.machine_speed import Machine
from tff_keyboard.host.text_table import aligned
from tff_keyboard.training.advice.advice import Advice


def unused_workdir(store: pathlib.Path) -> pathlib.Path:
    """Returns a run directory that does not exist yet, named after a store."""
    first = pathlib.Path("runs", store.name or "model")
    path, number = first, 1
    while path.exists():
        number += 1
        path = first.with_name(f"{first.name}_{number}")
    return path


def sentence(advice: Advice, machine: Machine) -> str:
    """Returns the recommended training, its reason and its duration."""
    train, begin = advice.config.train, advice.config.model.initial_model
    return (
        f"{advice.clients:,} train clients, {advice.words:,} words. Recommended: {advice.recipe}, "
        f"the config for {advice.reason}{f', starting from {begin}' if begin else ''}, with "
        f"{train.rounds:,} rounds of {train.clients_per_round} clients, which is "
        f"{advice.passes:.1f} passes over the text{_time(advice, machine)}."
    )


def advice_text(advice: Advice, machine: Machine, workdir: str) -> str:
    """Returns the expected quality, the cost, and the next command."""
    rows = [["measured on", "started from", "clients", "train words", "passes", "model", "hybrid"]]
    for corpus in advice.nearest:
        for model in corpus.recipes:
            hybrid = corpus.hybrid_of(model)
            sizes = [f"{corpus.clients:,}", f"{corpus.words:,}", f"{model.passes:g}"]
            both = [f"{each.top_1[0]:.1f}, {each.top_3:.1f}" for each in (model, hybrid) if each]
            rows.append([f"{corpus.name} ({corpus.kind})", model.start, *sizes, *both])
    smallest = min(corpus.words for corpus in advice.nearest)
    less = (
        " All of them have far more text than this store: expect less."
        if smallest > 5 * advice.words
        else ""
    )
    run, store = shlex.quote(workdir), shlex.quote(advice.config.data.store)
    start = advice.config.model.initial_model
    compared = [workdir, *([start] if start else []), "ngram", f"hybrid:{workdir}"]
    return "\n\n".join(
        [
            sentence(advice, machine),
            "Results on held-out clients, for the corpora nearest in size: share of words that "
            "were the first\nsuggestion, and among three suggestions, in percent. The kind of "
            f"text matters more than its size.{less}\n{aligned(rows, left=2)}\nThe hybrid is the "
            "model of an export with --ngram: network, n-gram, and the user's own words.",
            *(f"Note: {warning}" for warning in advice.warnings),
            f"Next:\n  tff-keyboard train --store={store} --workdir={run}\n"
            f"  tff-keyboard compare {shlex.join(compared)}",
        ]
    )


def _time(advice: Advice, machine: Machine) -> str:
    """Returns the sentence about the duration; "" if it is unknown."""
    if advice.cost is None:
        return ""
    wall, of_one_core = (
        _minutes(minutes)
        for minutes in (advice.cost.minutes(machine), advice.cost.core_minutes(machine))
    )
    return (
        f". It takes about {wall} on this machine if nothing else runs ({machine.cores} cores with "
        f"{machine.gflops:.0f} GFLOP/s, just measured)"
        + (f", or {of_one_core} on one core" if of_one_core != wall else "")
    )


def _minutes(minutes: float) -> str:
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
