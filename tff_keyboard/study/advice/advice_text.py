"""Advice as a person reads it."""

import pathlib
import shlex

from tff_keyboard.host.machine_speed import Machine
from tff_keyboard.host.text_table import aligned
from tff_keyboard.study.advice.advice import Advice


def unused_workdir(store: pathlib.Path) -> pathlib.Path:
    """A run directory that is not there yet, named after a store."""
    first = pathlib.Path("runs", store.name or "model")
    path, number = first, 1
    while path.exists():
        number += 1
        path = first.with_name(f"{first.name}_{number}")
    return path


def sentence(advice: Advice, machine: Machine) -> str:
    """What is trained, why, and how long it takes."""
    train, begin = advice.config.train, advice.config.model.initial_model
    return (
        f"{advice.people:,} train people, {advice.words:,} words. {advice.recipe}, the recipe for "
        f"{advice.reason}{f', beginning with {begin}' if begin else ''}: {train.rounds:,} rounds "
        f"of {train.clients_per_round} people, {advice.passes:.1f} passes over their text"
        f"{_time(advice, machine)}."
    )


def advice_text(advice: Advice, machine: Machine, workdir: str) -> str:
    """What to expect, what it costs, and the next command."""
    rows = [["measured on", "began with", "people", "train words", "passes", "model", "hybrid"]]
    for corpus in advice.nearest:
        for model in corpus.recipes:
            hybrid = corpus.hybrid_of(model)
            sizes = [f"{corpus.people:,}", f"{corpus.words:,}", f"{model.passes:g}"]
            both = [f"{each.top_1[0]:.1f}, {each.top_3:.1f}" for each in (model, hybrid) if each]
            rows.append([f"{corpus.name} ({corpus.kind})", model.start, *sizes, *both])
    smallest = min(corpus.words for corpus in advice.nearest)
    less = " All have far more text than this: expect less." if smallest > 5 * advice.words else ""
    run, store = shlex.quote(workdir), shlex.quote(advice.config.data.store)
    return "\n\n".join(
        [
            sentence(advice, machine),
            "Reached on people who were held out, on the corpora nearest in size: words of which "
            "the first\nsuggestion was right, and one of three, in percent. The kind of text "
            f"decides more than its size.{less}\n{aligned(rows, left=2)}\n"
            "The hybrid is what an export with --ngram types: the model, an n-gram, and the "
            "person's own words.",
            *(f"Note: {warning}" for warning in advice.warnings),
            f"Next:\n  tff-keyboard train --store={store} --workdir={run}\n"
            f"  tff-keyboard compare {run} ngram {shlex.quote(f'hybrid:{workdir}')}",
        ]
    )


def _time(advice: Advice, machine: Machine) -> str:
    if advice.cost is None:
        return ""
    return (
        f"; about {_minutes(advice.cost.minutes(machine))} on this machine if nothing else runs "
        f"({machine.cores} cores of {machine.gflops:.0f} GFLOP/s, measured now), "
        f"{_minutes(advice.cost.core_minutes(machine))} of one core"
    )


def _minutes(minutes: float) -> str:
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
