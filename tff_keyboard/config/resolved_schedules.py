"""Decides the rounds of cosines that leave them open: `train.rounds`, when a run begins."""

import dataclasses
from typing import Any

from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.config.sections.schedule_config import Cosine
from tff_keyboard.storage.toml import tomllib

TABLES = ("server", "client", "central")


def rounds_of_cosines(config: RunConfig) -> list[str]:
    """Overrides that say how many rounds each cosine of a config has."""
    schedules = {name: getattr(getattr(config, name), "schedule", None) for name in TABLES}
    return [
        f"{name}.schedule.rounds={schedule.rounds}"
        for name, schedule in schedules.items()
        if isinstance(schedule, Cosine)
    ]


def with_rounds(config: RunConfig, recorded: str | None = None) -> RunConfig:
    """`config` whose cosines say how many rounds they have, as the run will record it.

    A run that goes on keeps what it recorded (TOML), so more rounds change no rate of those that
    are done: rounds after a cosine's last one have its lowest rate. A number that the config sets
    stays, and is refused later where it differs.
    """
    begun = tomllib.loads(recorded) if recorded else {}
    found: dict[str, Any] = {}
    for name in TABLES:
        table = getattr(config, name)
        schedule = getattr(table, "schedule", None)
        if not isinstance(schedule, Cosine) or schedule.rounds:
            continue
        # A run of fewer rounds than its warm-up ends within it.
        rounds = max(config.train.rounds, schedule.warmup_rounds + 1)
        recorded_rounds = begun.get(name, {}).get("schedule", {}).get("rounds", rounds)
        if recorded_rounds > schedule.warmup_rounds:  # else the warm-up is another, and refused
            rounds = recorded_rounds
        cosine = dataclasses.replace(schedule, rounds=rounds)
        found[name] = dataclasses.replace(table, schedule=cosine)
    return dataclasses.replace(config, **found)
