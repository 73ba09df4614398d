"""Advice as a person reads it."""

import pathlib
import shlex

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


def advice_text(advice: Advice, store: str, workdir: str) -> str:
    """What to expect, what it costs, and the next command.

    Args:
      advice: What `study.advice.advice` found.
      store: Its folder.
      workdir: Run directory of the training.
    """
    rows = [["measured on", "people", "train words", "passes", "top-1 %", "top-3 %", ""]]
    for corpus in advice.nearest:
        about = f"{corpus.name} ({corpus.kind})"
        judged = corpus.population.replace("_", " ")
        for model in corpus.recipes:
            sizes = [f"{corpus.people:,}", f"{corpus.words:,}", f"{model.passes:g}"]
            recall = [f"{model.top_1[0]:.1f}", f"{model.top_3:.1f}"]
            rows.append([about, *sizes, *recall, f"{judged}, from {model.start}"])
    run = shlex.quote(workdir)
    recipe = advice.recipe
    options = " ".join(f"--set={shlex.quote(option)}" for option in advice.overrides(store))
    return "\n\n".join(
        [
            f"{advice.people:,} train people, {advice.words:,} words. "
            f"{recipe.config}: {advice.rounds:,} rounds of {advice.clients_per_round} people are "
            f"{advice.passes:.1f} passes over their text, about {_minutes(advice.minutes)} on "
            f"{advice.cores} cores if nothing else runs.",
            f"Recall of the nearest in size; the kind of text decides more:\n{aligned(rows)}",
            *(f"Note: {warning}" for warning in advice.warnings),
            f"Next:\n  tff-keyboard train --config={recipe.config} "
            f"--workdir={run} {options}\n"
            f"  tff-keyboard compare {run} ngram {shlex.quote(f'hybrid:{workdir}')}",
        ]
    )


def _minutes(minutes: float) -> str:
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
